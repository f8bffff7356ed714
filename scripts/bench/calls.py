"""Measure what one HTTP or gRPC call costs the event loop's thread, without sockets, beside another checkout.

Sockets, the load generator and the speed of a shared machine change the figures of whole servers by a tenth from
run to run. Here a node's process feeds itself the bytes of calls, one window at a time, and the best window counts:
two runs of one checkout differ by about 1 %. The checkouts take turns, each in its own processes with its own
``.venv``; both need this layout. Prints the CPU-us of the loop's thread per call and the ratio to the other checkout.

HTTP: ``churn`` (alternately a new instance and the removal of an old one), ``update`` (PUT of another weight and other
metadata), ``register`` (unchanged), ``change`` (new metadata), ``beat`` (light), ``full`` (a beat with the instance),
``full-query`` (the same in the query), ``list10``, ``list1000``, and ``gzip`` (``list1000`` compressed). gRPC, from the
bytes of the message to those of the answer, without the transport: ``rpc-churn`` (alternately a new instance and its
removal), ``rpc-batch`` (100 instances with other metadata), ``rpc-health``, ``rpc-register`` (unchanged) and
``rpc-query``.

    python -m scripts.bench.calls --other ../before
    python -m scripts.bench.calls --kinds register,rpc-query --turns 9
    python -m scripts.bench.calls --set rollcall.metrics.enabled=false --set rollcall.audit.enabled=false
    python -m scripts.bench.calls --set rollcall.limit.writesPerSecondPerAddress=100000000
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).resolve().parents[2]
HTTP_KINDS = ("churn", "update", "register", "change", "beat", "full", "full-query", "list10", "list1000", "gzip")
RPC_KINDS = ("rpc-churn", "rpc-batch", "rpc-health", "rpc-register", "rpc-query")
SERVICES, INSTANCES, LONG = 20, 200, 1_000
"""Services of ten instances, and one service of a thousand."""
BATCH, BATCHES = 100, 10
"""Instances of a batch, and batches in a window."""
WINDOWS = 200
CLIENT_IP = "10.9.0.9"
HEADERS = "Host: 127.0.0.1:8848\r\nUser-Agent: Nacos-Java-Client:v1.4.1\r\n"
AS_WORKER = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
"""Run by path with ``python -P``, so that modules come from the measured checkout."""


def service_of(number: int) -> str:
    return f"bench-{number % SERVICES}"


def _churned(number: int) -> str:
    """Name the churned instance with this number; even ones are new, and are removed some windows later."""
    name = quote(f"DEFAULT_GROUP@@{service_of(number // 2)}")
    return f"serviceName={name}&namespaceId=public&ip=11.{number >> 16}.{number >> 8 & 255}.{number & 255}&port=8080"


def http_call(kind: str, number: int, round_: int) -> bytes:
    """The bytes of a request; ``round_`` and ``number`` make each change different."""
    ip, name = f"10.1.0.{number}", quote(f"DEFAULT_GROUP@@{service_of(number)}")
    service, accept, body = f"serviceName={name}&namespaceId=public", "", ""
    where = f"{service}&ip={ip}&port=8080"
    attributes = {"ip": ip, "port": 8080, "weight": 1.0, "cluster": "DEFAULT", "metadata": {}, "period": 5_000}
    full = f"{service}&beat=" + quote(json.dumps({**attributes, "serviceName": f"DEFAULT_GROUP@@{service_of(number)}"}))
    match kind:
        case "churn":
            came = round_ * INSTANCES + number
            if number % 2 and came > INSTANCES:
                came -= INSTANCES + 1
                line = f"DELETE /nacos/v1/ns/instance?{_churned(came)}&ephemeral=true"
            else:
                started = quote(f'{{"version":"v{round_}","start":"{came}"}}')
                line = f"POST /nacos/v1/ns/instance?{_churned(came)}&weight=1.0&enable=true&healthy=true&ephemeral=true"
                line += f"&metadata={started}"
        case "update":
            changed = quote(f'{{"zone":"a","change":"{round_}-{number}"}}')
            line = f"PUT /nacos/v1/ns/instance?{where}&weight={(round_ + number) % 100 + 1}&enabled=true&healthy=true"
            line += f"&ephemeral=true&metadata={changed}"
        case "register":
            line = f"POST /nacos/v1/ns/instance?{where}&weight=1.0&enable=true&healthy=true&ephemeral=true"
        case "change":
            changed = quote(json.dumps({"zone": "a", "change": f"{round_}-{number}"}, separators=(",", ":")))
            line = f"POST /nacos/v1/ns/instance?{where}&weight=1.0&enable=true&healthy=true&ephemeral=true"
            line += f"&metadata={changed}"
        case "beat":
            line = f"PUT /nacos/v1/ns/instance/beat?{where}"
        case "full":
            line, body = "PUT /nacos/v1/ns/instance/beat", full
            accept = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(full)}\r\n"
        case "full-query":
            line = f"PUT /nacos/v1/ns/instance/beat?{full}"
        case "list10":
            line = f"GET /nacos/v1/ns/instance/list?{service}&clusters=&healthyOnly=false"
        case _:
            accept = "Accept-Encoding: gzip\r\n" if kind == "gzip" else ""
            line = "GET /nacos/v1/ns/instance/list?serviceName=long&namespaceId=public&clusters=&healthyOnly=false"
    return f"{line} HTTP/1.1\r\n{HEADERS}{accept}\r\n{body}".encode()


class NoSocket(asyncio.Transport):
    """A transport without a socket that counts the answers with status 200."""

    answers = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (CLIENT_IP, 5) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.answers += bytes(data).count(b"HTTP/1.1 200 OK")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


async def best_window(window: Callable[[int], tuple[Callable[[], Coroutine[Any, Any, None]], int]]) -> float:
    """CPU-us of a call in the best of all windows; ``window`` prepares one and returns its number of calls."""
    best_us = float("inf")
    gc.disable()
    for round_ in range(WINDOWS):
        run, count = window(round_)
        begun_ns = time.thread_time_ns()
        await run()
        best_us = min(best_us, (time.thread_time_ns() - begun_ns) / count / 1_000)
        if not round_ % 10:
            await asyncio.sleep(0)
            gc.collect()
    return best_us


async def measure_http(node: Any, kind: str) -> float:
    """CPU-us of a request of this kind, from its bytes to the bytes of its answer."""
    from app.http.factory import create_app
    from app.http.server.connection import HttpConnection
    from app.http.server.server import HttpServer

    services, loop, app = node.services, asyncio.get_running_loop(), create_app(node.services)
    try:
        from app.http.server.request_answers import RequestAnswers

        parts: tuple[Any, ...] = (services, RequestAnswers(app, services, loop), loop, 10)
    except ImportError:  # an older checkout
        parts = (app, services, loop, 10)
    server = HttpServer(*parts)
    connection, socket = HttpConnection(server), NoSocket()
    connection.connection_made(socket)
    for number in range(LONG):
        line = f"POST /nacos/v1/ns/instance?serviceName=long&ip=10.2.{number >> 8}.{number & 255}&port=80"
        connection.data_received(f"{line} HTTP/1.1\r\n{HEADERS}\r\n".encode())
    for number in range(INSTANCES):
        connection.data_received(http_call("register", number, 0))
    before = socket.answers
    connection.data_received(http_call(kind, 0, 0))
    while socket.answers == before:  # a long list is encoded in a thread pool, and cached
        await asyncio.sleep(0.01)

    def window(round_: int) -> tuple[Callable[[], Coroutine[Any, Any, None]], int]:
        calls = [http_call(kind, number, round_) for number in range(INSTANCES)]
        before = socket.answers

        async def run() -> None:
            for call in calls:
                connection.data_received(call)
            await asyncio.sleep(0)  # answers are written at the end of a turn of the loop
            if socket.answers - before != len(calls):
                raise SystemExit(f"{kind}: {socket.answers - before} of {len(calls)} were answered with 200")

        return run, len(calls)

    return await best_window(window)


class NoStream:
    """The stream of a client that receives nothing."""

    def wake(self) -> None:
        pass

    def end(self) -> None:
        pass


def rpc_call(kind: str, number: int) -> tuple[str, dict[str, Any]]:
    """The type and the fields of a message; ``number`` makes each change different."""

    def service(name: str) -> dict[str, str]:
        return {"namespace": "public", "serviceName": name, "groupName": "DEFAULT_GROUP"}

    def instance(ip: str, mark: int) -> dict[str, Any]:
        flags = dict.fromkeys(("healthy", "enabled", "ephemeral"), True)
        named = {"instanceId": "", "clusterName": "DEFAULT", "serviceName": ""}
        metadata = {"version": "v1", "start": str(mark)}
        return {"ip": ip, "port": 8080, "weight": 1.0, **flags, **named, "metadata": metadata}

    match kind:
        case "rpc-churn":
            came = number // 2
            verb = "deregisterInstance" if number % 2 else "registerInstance"
            one = instance(f"11.{came >> 16}.{came >> 8 & 255}.{came & 255}", came)
            return "InstanceRequest", {"type": verb, "instance": one, **service(service_of(came))}
        case "rpc-batch":
            some = [instance(f"10.3.0.{last}", number) for last in range(BATCH)]
            return "BatchInstanceRequest", {"type": "batchRegisterInstance", "instances": some, **service("batch")}
        case "rpc-health":
            return "HealthCheckRequest", {}
        case "rpc-register":
            return "InstanceRequest", {"type": "registerInstance", "instance": instance(CLIENT_IP, 0), **service("own")}
    return "ServiceQueryRequest", {"cluster": "", "healthyOnly": False, "udpPort": 0, **service("own")}


async def measure_rpc(node: Any, kind: str) -> float:
    """CPU-us of a call of this kind, from the bytes of the message to those of its answer."""
    from app.peers import payload as wire

    [frontend] = node.services.loop_frontends
    await frontend.start()
    connection = frontend.connections.opened(f"ipv4:{CLIENT_IP}:5", on_cluster_port=False)
    connection.stream = NoStream()

    def message(type_name: str, fields: Mapping[str, Any]) -> bytes:
        return wire.encode(type_name, json.dumps({"requestId": "1", "module": "naming", **fields}).encode(), CLIENT_IP)

    labels = {"source": "sdk", "module": "naming"}
    frontend.dispatcher.take(connection, message("ConnectionSetupRequest", {"clientVersion": "Java", "labels": labels}))
    dispatcher = frontend.dispatcher
    known = getattr(dispatcher, "known", None)  # an older checkout may take messages as bytes
    find = getattr(known, "find", None) or getattr(known, "get", None)
    for number in range(2):
        for one in ("rpc-register", kind):
            if b'"resultCode":200' not in await dispatcher.answer(connection, message(*rpc_call(one, number))):
                raise SystemExit(f"{one} was refused")

    def window(round_: int) -> tuple[Callable[[], Coroutine[Any, Any, None]], int]:
        count = BATCHES if kind == "rpc-batch" else INSTANCES
        calls = [message(*rpc_call(kind, (round_ + 1) * count + number)) for number in range(count)]

        async def run() -> None:
            for call in calls:
                found = call if find is None else find(call)
                if found is None or dispatcher.answer_hot(connection, found) is None:
                    await dispatcher.answer(connection, call)

        return run, count

    return await best_window(window)


def work(kind: str, folder: str, port: int, settings: dict[str, str]) -> None:
    """Measure in this process, print the figure, and exit."""
    from app.config.settings import read_settings
    from app.node.node import Node

    keys = {"nacos.standalone": "true", "rollcall.data.dir": folder, "rollcall.announce": "false"}
    node = Node(read_settings({**keys, "server.port": str(port), **settings}, {}))

    async def measure() -> float:
        node.start()
        node.services.durable.update_switch("check", "false", here_only=True)  # instances without beats stay
        return await (measure_rpc if kind in RPC_KINDS else measure_http)(node, kind)

    try:
        print(asyncio.run(measure()), flush=True)
    except (Exception, SystemExit):
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # idle threads need no orderly shutdown


@dataclass(frozen=True, slots=True)
class Measured:
    """A checkout, and the settings of its node that differ from the default."""

    name: str
    checkout: Path
    settings: tuple[str, ...] = ()
    """Each as ``KEY=VALUE``."""


def figure_of(one: Measured, kind: str, port: int) -> float:
    """The figure of a checkout, measured in a process of its own."""
    checkout = one.checkout
    python = str(checkout / ".venv/bin/python")
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-P", "-c", AS_WORKER, __file__, "--work", kind, "--folder", folder, "--port", str(port)]
        for setting in one.settings:
            command += ["--set", setting]
        ended = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=120, check=False)
    if ended.returncode:
        raise SystemExit(f"{kind} at {checkout}: {ended.stderr.strip()[-2_000:]}")
    return float(ended.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="another checkout, installed as scripts/serve installs it")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="also measure this checkout with a setting"
    )
    parser.add_argument("--kinds", default=",".join(HTTP_KINDS + RPC_KINDS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--port", type=int, default=23_848, help="the gRPC ports are 1,000 and 1,001 above")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.folder, options.port, dict(one.split("=", 1) for one in options.set))
    # Not names_of: each worker runs this file with the modules of the measured checkout, which may lack it.
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - {*HTTP_KINDS, *RPC_KINDS}:
        parser.error(f"argument --kinds: unknown kind {', '.join(sorted(unknown))}")
    checkouts = [Measured(HERE.name, HERE)]
    if options.other:
        checkouts.append(Measured(options.other.name, options.other.resolve()))
    if options.set:
        checkouts.append(Measured("as set", HERE, tuple(options.set)))
    from scripts.support.tables import head, row  # not in a worker: its checkout may lack it

    print(head(["CPU-us per call", *(one.name for one in checkouts), "ratio"]))
    for kind in kinds:
        best = dict.fromkeys(checkouts, float("inf"))
        for turn in range(options.turns):
            for checkout in checkouts if turn % 2 else reversed(checkouts):
                best[checkout] = min(best[checkout], figure_of(checkout, kind, options.port))
        ratio = f"{best[checkouts[0]] / best[checkouts[1]]:.2f}" if len(checkouts) > 1 else ""
        print(row([kind, *(f"{best[one]:.2f}" for one in checkouts), ratio]), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
