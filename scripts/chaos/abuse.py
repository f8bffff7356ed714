"""Send a node many thousand requests that no client means; nothing may be stored, nothing fail, nothing shine through.

A standalone node of its own gets nonsense for every route and parameter (see abuse_corpus.py), requests with bytes
changed at random, raw bytes that are no HTTP, and all that in pieces on connections which are reset in between. Before
and after, everything that it stores is read: through its API and from its data folder. Prints counts by status as JSON;
exit code 1 when an answer was a 500, showed the inside of the program, something was stored, descriptors were not given
back, or the node was not there at the end.
"""

import argparse
import collections
import contextlib
import http.client
import itertools
import random
import re
import socket
import sqlite3
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson

from scripts.chaos.abuse_corpus import CONTEXT_PATH, HEADERS, RAW, Request, complaint, corpus, hopeless
from scripts.support.member_processes import MemberProcess

ANSWER_TIMEOUT_S = 10.0
GARBAGE_TIMEOUT_S = 2.0
CLOSED_TIMEOUT_S = 10.0
TORN = 200
"""Connections at a time that get pieces of requests, and end as it happens."""
CLOSED = 999
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
KEPT_EXAMPLES = 10
ANSWER_BYTES_MAX = 1 << 20
RESET = struct.pack("ii", 1, 0)
"""To linger for no time at all."""


class Connection:
    """One kept connection to the node, opened anew when the node closed it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._at = host, int(port)
        self._open: http.client.HTTPConnection | None = None

    def send(self, data: bytes, method: str) -> tuple[int, bytes]:
        """Send bytes as they are; return status and body, status 0 when the node closed without an answer."""
        for _ in range(2):
            fresh = self._open is None
            connection = self._open = self._open or self._connect()
            try:
                connection.sock.sendall(data)
                response = http.client.HTTPResponse(connection.sock, method=method.upper())
                response.begin()
                body = response.read(ANSWER_BYTES_MAX)
                if response.will_close or not response.isclosed():
                    self.close()
                return response.status, body
            except (OSError, http.client.HTTPException):
                self.close()
                if fresh:
                    return 0, b""
        return 0, b""

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(*self._at, timeout=ANSWER_TIMEOUT_S)
        connection.connect()
        return connection

    def connect(self) -> socket.socket:
        """A connection that the caller ends."""
        return socket.create_connection(self._at, ANSWER_TIMEOUT_S)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def garbage(self, data: bytes) -> bytes:
        """Send bytes, and nothing more, on a connection of their own; return what comes back."""
        with socket.create_connection(self._at, ANSWER_TIMEOUT_S) as raw:
            raw.settimeout(GARBAGE_TIMEOUT_S)
            answer = b""
            with contextlib.suppress(OSError):
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                while part := raw.recv(1 << 16):
                    answer += part
            return answer


def wire_of(request: Request) -> bytes:
    """The bytes of a request, header values and method as Latin-1."""
    payload = request.payload
    names = {name for name, _ in request.fields}
    fields = [*request.fields, *([] if "Host" in names else [("Host", "abuse")])]
    if payload or request.method not in ("GET", "HEAD"):
        fields.append(("Content-Length", str(len(payload))))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"{request.method} {request.target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + payload


def mutated(requests: list[Request], count: int, rng: random.Random) -> Iterator[bytes]:
    """Requests with some bytes changed, cut or doubled."""
    for _ in range(count):
        data = bytearray(wire_of(rng.choice(requests))[:4_096])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randrange(20)]
                case 2:
                    data[at:at] = data[at : at + rng.randrange(20)]
                case _:
                    data[at:at] = rng.randbytes(3)
            if not data:
                break
        yield bytes(data)


class Node:
    """The node under abuse: what it stores, and whether it is well."""

    def __init__(self, member: MemberProcess, folder: Path) -> None:
        self._member = member
        self._data = folder / f"{member.address.rpartition(':')[2]}.data"

    def call(self, method: str, path: str, **parameters: object) -> Any:
        host, _, port = self._member.address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request(method, f"{CONTEXT_PATH}{path}?{urlencode(parameters)}")
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, f"{method} {path}: {response.status} {body!r}"
            return orjson.loads(body) if body[:1] in b"{[" else body

    def fill(self) -> None:
        """Store one of each kind, to see that it stays."""
        patient = orjson.dumps({"preserved.heart.beat.timeout": "99999999", "preserved.ip.delete.timeout": "99999999"})
        self.call("POST", "/v1/ns/instance", serviceName="witness", ip="10.1.1.1", port=1, metadata=patient.decode())
        self.call("POST", "/v1/ns/service", serviceName="kept", protectThreshold=0.5)
        self.call("PUT", "/v1/ns/cluster", serviceName="kept", clusterName="DEFAULT", checkPort=80,
                  useInstancePort4Check="true", healthChecker='{"type":"NONE"}')  # fmt: skip
        self.call("POST", "/v1/ns/instance", serviceName="kept", ip="10.1.1.2", port=2, ephemeral="false")
        self.call("POST", "/v1/console/namespaces", customNamespaceId="kept", namespaceName="kept", namespaceDesc="")
        self.call("PUT", "/v1/ns/operator/switches", entry="healthCheckTimes", value="5")

    def stored(self) -> dict[str, Any]:
        """Everything that this node keeps, in memory and on disk."""
        namespaces = [one["namespace"] or "public" for one in self.call("GET", "/v1/console/namespaces")["data"]]
        services: dict[str, Any] = {}
        for namespace in namespaces:
            for group in ("DEFAULT_GROUP", "*"):
                listed = self.call("GET", "/v1/ns/service/list", pageNo=1, pageSize=100_000, namespaceId=namespace,
                                   groupName=group)  # fmt: skip
                services[f"{namespace} {group}"] = sorted(listed["doms"])
        details = [
            {key: value for key, value in self.call("GET", path, serviceName=name).items() if key != "lastRefTime"}
            for name in ("witness", "kept")
            for path in ("/v1/ns/instance/list", "/v1/ns/service")
        ]
        with contextlib.closing(sqlite3.connect(self._data / "records.sqlite3")) as records:
            rows = records.execute("SELECT * FROM record ORDER BY key").fetchall()
        switches = self.call("GET", "/v1/ns/operator/switches")
        datums = self.call("GET", "/v1/ns/distro/datums")
        counts = self.call("GET", "/v1/ns/operator/metrics")
        return {
            "namespaces": namespaces,
            "services": services,
            "details": details,
            "records": rows,
            "switches": switches,
            "datums": sorted(datums),
            "counts": (counts["serviceCount"], counts["instanceCount"], counts["status"]),
        }

    def memory_mb(self) -> int:
        worker = self._member.pids()[-1]
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{worker}/status").read_text().splitlines())
        return int(fields["VmRSS"].split()[0]) // 1_024

    def pids(self) -> list[int]:
        return self._member.pids()

    def descriptors(self) -> int:
        """How many the worker has open, once those of connections that ended are given back."""
        folder = Path(f"/proc/{self._member.pids()[-1]}/fd")
        end_s = time.monotonic() + CLOSED_TIMEOUT_S
        fewest = len(list(folder.iterdir()))
        while self.call("GET", "/v1/ns/operator/metrics")["connections"] > 1 and time.monotonic() < end_s:
            time.sleep(0.05)
        for _ in range(5):  # the connection of that call ends a moment later
            time.sleep(0.05)
            fewest = min(fewest, len(list(folder.iterdir())))
        return fewest


class Abuse:
    """The requests, and what came of them."""

    def __init__(self, address: str) -> None:
        self._connection = Connection(address)
        self.statuses: collections.Counter[str] = collections.Counter()
        self.complaints: list[str] = []
        self.sent = 0

    def request(self, data: bytes, method: str) -> None:
        """A request as such is well-formed, and gets an answer."""
        status, body = self._connection.send(data, method)
        self._count(data, status, body)

    def garbage(self, data: bytes) -> None:
        """What is none may be answered or not."""
        answer = self._connection.garbage(data)
        status = max(map(int, STATUS.findall(answer)), default=CLOSED)
        self._count(data, status, answer)

    def torn(self, requests: Iterator[bytes], rng: random.Random) -> None:
        """Send requests in pieces, turn by turn over many connections, and end half of those by a reset."""
        while lot := list(itertools.islice(requests, TORN)):
            open_now = [(self._connection.connect(), memoryview(data)) for data in lot]
            while open_now:
                at = rng.randrange(len(open_now))
                raw, rest = open_now[at]
                cut = rng.randint(1, 200)
                with contextlib.suppress(OSError):
                    raw.send(rest[:cut])
                open_now[at] = raw, rest[cut:]
                if len(rest) <= cut or rng.random() < 0.05:
                    if rng.random() < 0.5:
                        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    raw.close()
                    del open_now[at]
            self.sent += len(lot)
            self.statuses["torn"] += len(lot)

    def _count(self, data: bytes, status: int, body: bytes) -> None:
        self.sent += 1
        self.statuses["closed" if status == CLOSED else str(status or "silent")] += 1
        wrong = complaint(status, body)
        if wrong is not None:
            self.complaints.append(f"{wrong}: {data[:300]!r} -> {body[:200]!r}")

    def close(self) -> None:
        self._connection.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=25_000, help="of the corpus, drawn at random; 0 sends all")
    parser.add_argument("--mutations", type=int, default=3_000, help="requests with bytes changed at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=23_848)
    parser.add_argument("--logs", type=Path, help="folder for the node's log and data")
    return parser.parse_args()


def _routes() -> list[tuple[str, str]]:
    """Every route of the program; importing its factory fills the table."""
    import app.http.factory  # noqa: F401
    from app.http.api.call import ROUTES

    return [(one.method, one.path) for one in ROUTES]


def main() -> int:
    """Abuse a node; 0 when it did not mind."""
    options = _options()
    rng = random.Random(options.seed)
    folder = options.logs or Path(tempfile.mkdtemp(prefix="rollcall-abuse-"))
    folder.mkdir(parents=True, exist_ok=True)
    routes = _routes()
    requests = list(corpus(routes, options.seed))
    chosen = requests if not options.requests else rng.sample(requests, min(options.requests, len(requests)))
    member = MemberProcess(options.port, folder, settings={"nacos.standalone": "true"})
    member.start()
    try:
        member.wait_ready()
        node, abuse, begun_s = Node(member, folder), Abuse(member.address), time.monotonic()
        node.fill()
        before, pids, memory_mb, descriptors = node.stored(), node.pids(), node.memory_mb(), node.descriptors()
        for request in chosen:
            abuse.request(wire_of(request), request.method)
        for data in RAW:
            abuse.garbage(data)
        bad = [one for route in routes for one in hopeless(*route)]
        for data in mutated(bad, options.mutations, rng):
            abuse.garbage(data)
        abuse.torn(itertools.chain(RAW, mutated(bad, options.mutations, rng)), rng)
        abuse.close()
        after = node.stored()
        took_s = time.monotonic() - begun_s
        shone = "Traceback (most recent call last)" in member.log.read_text(errors="replace")
        changed = [name for name in before if before[name] != after[name]]
        descriptors_after = node.descriptors()
        good = not abuse.complaints and not changed and not shone and node.pids() == pids
        good = good and descriptors_after <= descriptors
        summary = {
            "good": good,
            "routes": len(routes),
            "headers tried": len(HEADERS),
            "requests": abuse.sent,
            "answers by status": dict(sorted(abuse.statuses.items())),
            "complaints": len(abuse.complaints),
            "first of these": abuse.complaints[:KEPT_EXAMPLES],
            "changed by it": {name: [str(before[name])[:500], str(after[name])[:500]] for name in changed},
            "stack traces in the log": shone,
            "same processes": node.pids() == pids,
            "memory before and after, MB": [memory_mb, node.memory_mb()],
            "descriptors before and after": [descriptors, descriptors_after],
            "seconds": round(took_s, 1),
        }
        print(orjson.dumps(summary, option=orjson.OPT_INDENT_2).decode(), flush=True)
        print(f"log and data of the node: {folder.absolute()}")
        return 0 if good else 1
    finally:
        member.kill_all()


if __name__ == "__main__":
    sys.exit(main())
