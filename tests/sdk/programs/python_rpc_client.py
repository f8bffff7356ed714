"""Does with nacos-sdk-python 2 and 3 (gRPC) what the lines on its input say; program.py has the shape of all lines."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from v2.nacos import (
    BatchRegisterInstanceParam,
    ClientConfigBuilder,
    DeregisterInstanceParam,
    ListInstanceParam,
    ListServiceParam,
    NacosNamingService,
    RegisterInstanceParam,
    SubscribeServiceParam,
)

GROUP = "DEFAULT_GROUP"
clients: dict[str, Any] = {}
seen: dict[tuple[str, str], dict[str, Any]] = {}
"""What a listener was told last of a service, by client and service: weight and metadata of each instance."""


def put(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


async def open_client(
    name: str, servers: list[str], namespace: str | None = None, username: str = "", password: str = ""
) -> None:
    folder = os.path.join(os.environ["HOME"], name)
    config = ClientConfigBuilder().server_address(",".join(servers)).log_dir(folder).cache_dir(folder)
    if namespace is not None:
        config = config.namespace_id(namespace)
    if username:
        config = config.username(username).password(password)
    clients[name] = await NacosNamingService.create_naming_service(config.build())


def instance(service: str, ip: str, port: int, **more: Any) -> Any:
    return RegisterInstanceParam(service_name=service, group_name=GROUP, ip=ip, port=port, **more)


async def register(
    name: str, service: str, ip: str, port: int, cluster: str, weight: float, metadata: dict[str, str],
    ephemeral: bool = True,
) -> Any:  # fmt: skip
    more = {"cluster_name": cluster, "weight": weight, "metadata": metadata, "ephemeral": ephemeral}
    return await clients[name].register_instance(instance(service, ip, port, **more))


async def batch(name: str, service: str, instances: list[dict[str, Any]]) -> Any:
    whole = [instance(service, **one) for one in instances]
    param = BatchRegisterInstanceParam(service_name=service, group_name=GROUP, instances=whole)
    return await clients[name].batch_register_instances(param)


async def deregister(name: str, service: str, ip: str, port: int, cluster: str, ephemeral: bool = True) -> Any:
    param = DeregisterInstanceParam(
        service_name=service, group_name=GROUP, ip=ip, port=port, cluster_name=cluster, ephemeral=ephemeral
    )
    return await clients[name].deregister_instance(param)


async def list_instances(name: str, service: str) -> list[dict[str, Any]]:
    param = ListInstanceParam(service_name=service, group_name=GROUP, subscribe=False, healthy_only=None)
    return [one.model_dump() for one in await clients[name].list_instances(param)]


async def select(name: str, service: str) -> str:
    # From what the client has been told: it asks only for a service that it does not listen to.
    param = ListInstanceParam(service_name=service, group_name=GROUP, subscribe=True, healthy_only=True)
    chosen = (await clients[name].list_instances(param))[0]
    return f"{chosen.ip}:{chosen.port}"


async def services(name: str) -> list[str]:
    found = await clients[name].list_services(ListServiceParam(namespace_id="public", group_name=GROUP, page_size=100))
    return list(found.services)


async def subscribe(name: str, service: str) -> bool:
    async def told(instances: list[Any]) -> None:
        now = {f"{one.ip}:{one.port}": (one.weight, one.metadata) for one in instances}
        before = seen.get((name, service), {})
        seen[name, service] = now
        changed = {where for where in now.keys() & before.keys() if now[where] != before[where]}
        events = {"added": now.keys() - before.keys(), "changed": changed, "removed": before.keys() - now.keys()}
        for kind, which in events.items():
            for where in sorted(which):
                put({"event": kind, "client": name, "service": service, "instance": where})

    param = SubscribeServiceParam(service_name=service, group_name=GROUP, subscribe_callback=told)
    await clients[name].subscribe(param)
    return True


async def close(name: str) -> bool:
    # 2.0 awaits what is no coroutine, as the last thing, when all is closed.
    with suppress(TypeError):
        await clients.pop(name).shutdown()
    return True


OPS = {
    "open": open_client,
    "register": register,
    "batch": batch,
    "deregister": deregister,
    "list": list_instances,
    "select": select,
    "services": services,
    "subscribe": subscribe,
    "close": close,
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
    # The library's tasks do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
