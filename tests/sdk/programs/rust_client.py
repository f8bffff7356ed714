"""Does with nacos-sdk-rust (gRPC) what the lines on its input say; program.py has the shape of all lines.

The library calls listeners on its own threads. Its calls without ``await`` hold the interpreter: both wait for ever.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from nacos_sdk_rust_binding_py import AsyncNacosNamingClient, ClientOptions, NacosServiceInstance

GROUP = "DEFAULT_GROUP"
clients: dict[str, Any] = {}
listeners: list[Callable[[list[Any]], None]] = []


def put(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")  # whole lines, from any thread
    sys.stdout.flush()


async def open_client(
    name: str, servers: list[str], namespace: str = "", username: str | None = None, password: str | None = None
) -> None:
    options = ClientOptions(",".join(servers), namespace, username=username, password=password)
    clients[name] = await asyncio.to_thread(AsyncNacosNamingClient, options)


async def register(name: str, service: str, ip: str, port: int, **more: Any) -> bool:
    await clients[name].register_instance(service, GROUP, NacosServiceInstance(ip, port, **more))
    return True


async def batch(name: str, service: str, instances: list[dict[str, Any]]) -> bool:
    whole = [NacosServiceInstance(**one) for one in instances]
    await clients[name].batch_register_instance(service, GROUP, whole)
    return True


async def deregister(name: str, service: str, ip: str, port: int) -> bool:
    await clients[name].deregister_instance(service, GROUP, NacosServiceInstance(ip, port))
    return True


async def list_instances(name: str, service: str) -> list[dict[str, Any]]:
    found = await clients[name].get_all_instances(service, GROUP, subscribe=False)
    return [shown(one) for one in found]


async def select(name: str, service: str, healthy: bool) -> list[dict[str, Any]]:
    found = await clients[name].select_instances(service, GROUP, subscribe=False, healthy=healthy)
    return [shown(one) for one in found]


async def select_one(name: str, service: str) -> dict[str, Any]:
    return shown(await clients[name].select_one_healthy_instance(service, GROUP, subscribe=False))


def shown(one: Any) -> dict[str, Any]:
    return {"ip": one.ip, "port": one.port, "weight": one.weight, "metadata": dict(one.metadata or {})}


async def subscribe(name: str, service: str) -> bool:
    before: dict[str, Any] = {}

    def told(instances: list[Any]) -> None:
        nonlocal before
        now = {f"{one.ip}:{one.port}": shown(one) for one in instances}
        changed = {where for where in now.keys() & before.keys() if now[where] != before[where]}
        for kind, which in (
            ("added", now.keys() - before.keys()),
            ("changed", changed),
            ("removed", before.keys() - now.keys()),
        ):
            for where in sorted(which):
                put({"event": kind, "client": name, "service": service, "instance": where})
        before = now

    listeners.append(told)
    await clients[name].subscribe(service, GROUP, None, told)
    return True


OPS = {
    "open": open_client,
    "register": register,
    "batch": batch,
    "deregister": deregister,
    "list": list_instances,
    "select": select,
    "select_one": select_one,
    "subscribe": subscribe,
}


async def main() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        fields = json.loads(line)
        op, name = fields.pop("op"), fields.pop("client")
        try:
            put({"result": await OPS[op](name, **fields)})
        except Exception as error:  # whatever the library raises is what its user gets
            put({"error": f"{type(error).__name__}: {error}"})
    # The library's threads do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
