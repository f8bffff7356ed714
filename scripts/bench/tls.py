"""What does TLS cost a node: of a request on a kept connection, and of a connection with one request?

Starts a plain node and one with TLS for each kind of key, and loads them in turns from this process. Prints CPU time
(user and system, all of a node's processes) of a beat and of a list of ten instances, over connections that are kept
and with a new connection for each, and the ratio to plain. The load is one request at a time on each connection.

    python -m scripts.bench.tls
    python -m scripts.bench.tls --turns 3 --requests 5000
"""

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.idle import cpu_s
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess

CONNECTIONS = 16
TIMEOUT_S = 30.0
SERVICE = "serviceName=paid"
INSTANCES = 10
REQUESTS = {
    "beat": f"PUT {CONTEXT_PATH}/v1/ns/instance/beat?{SERVICE}&ip=10.0.0.1&port=80",
    "list": f"GET {CONTEXT_PATH}/v1/ns/instance/list?{SERVICE}",
}
KEYS = {"EC P-256": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "RSA 2048": ("rsa:2048",)}
PLAIN = "plain"


def make_certificate(folder: Path, kind: Sequence[str]) -> dict[str, str]:
    """Make a certificate for this machine; return the settings of TLS with it."""
    chain, private_key = folder / "chain.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-days", "2", *subject]
    command = [*made, "-keyout", str(private_key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S)
    prefix = "rollcall.http.tls"
    return {
        f"{prefix}.enabled": "true",
        f"{prefix}.certChainFile": str(chain),
        f"{prefix}.certPrivateKey": str(private_key),
    }


class Load:
    """The clients of one node."""

    def __init__(self, member: MemberProcess) -> None:
        self._member = member
        host, _, port = member.address.rpartition(":")
        self._at = (host, int(port))

    def open(self) -> socket.socket:
        plain = socket.create_connection(self._at, TIMEOUT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if self._member.tls is None else self._member.tls.wrap_socket(plain, server_hostname=self._at[0])

    def register(self) -> None:
        with self.open() as opened:
            for number in range(1, INSTANCES + 1):
                target = f"POST {CONTEXT_PATH}/v1/ns/instance?{SERVICE}&ip=10.0.0.{number}&port=80"
                ask([opened], target)

    def kept_us(self, target: str, count: int) -> float:
        """CPU microseconds of a request over connections that are kept."""
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(self.open()) for _ in range(CONNECTIONS)]
            ask(opened, target)
            before_s = self._cpu_s()
            for _ in range(count // CONNECTIONS):
                ask(opened, target)
            return (self._cpu_s() - before_s) / (count // CONNECTIONS * CONNECTIONS) * 1e6

    def new_us(self, target: str, count: int) -> float:
        """CPU microseconds of a connection with one request."""
        before_s = self._cpu_s()
        for _ in range(count):
            with self.open() as opened:
                ask([opened], target)
        return (self._cpu_s() - before_s) / count * 1e6

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, self._member.pids()))


def ask(opened: Sequence[socket.socket], target: str) -> None:
    """Send the request on all connections, and wait for all answers.

    Raises:
        RuntimeError: an answer is not what a node answers when all is well.
    """
    request = f"{target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    for one in opened:
        one.sendall(request)
    for one in opened:
        answer = one.recv(65_536)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += one.recv(65_536)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{target}: {head.decode()}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=24_848, help="of the first node; each further one is 10 above")
    parser.add_argument("--turns", type=int, default=5, help="medians of so many are printed (5)")
    parser.add_argument("--requests", type=int, default=40_000, help="over kept connections, in a turn (40,000)")
    parser.add_argument("--handshakes", type=int, default=1_000, help="in a turn (1,000)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rollcall-tls-") as folder, contextlib.ExitStack() as stack:
        loads: dict[str, Load] = {}
        for number, (name, kind) in enumerate([(PLAIN, None), *KEYS.items()]):
            own = Path(folder, str(number))
            own.mkdir()
            settings = {"rollcall.rpc.enabled": "false"} | (make_certificate(own, kind) if kind else {})
            member = MemberProcess(options.port + 10 * number, own, settings=settings)
            stack.callback(member.kill_all)
            member.start()
            member.wait_ready()
            loads[name] = Load(member)
            loads[name].register()
        measured: dict[str, dict[str, list[float]]] = {}
        for _ in range(options.turns):
            for name, load in loads.items():
                for what, target in REQUESTS.items():
                    kept = measured.setdefault(f"{what}, kept connection", {}).setdefault(name, [])
                    kept.append(load.kept_us(target, options.requests))
                new = measured.setdefault("a connection and one beat", {}).setdefault(name, [])
                new.append(load.new_us(REQUESTS["beat"], options.handshakes))
    print(f"{'CPU-us, medians':28}" + "".join(f"{name:>12}" for name in (PLAIN, *KEYS)))
    for what, of_names in measured.items():
        print(f"{what:28}" + "".join(f"{statistics.median(of_names[name]):>12.1f}" for name in (PLAIN, *KEYS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
