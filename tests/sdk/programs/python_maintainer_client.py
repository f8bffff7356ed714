"""Makes the calls of nacos-maintainer-sdk-python that the lines on its input name.

program.py has the shape of all lines. The arguments are samples: the calls are refused.
"""

import asyncio
import inspect
import json
import os
import sys
from typing import Any, get_type_hints

from maintainer.ai.nacos_ai_maintainer_service import NacosAIMaintainerService
from pydantic import BaseModel
from v2.nacos import ClientConfigBuilder

SAMPLES = {str: "sample", int: 1, bool: True}
clients: dict[str, Any] = {}


def put(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


async def open_client(servers: list[str], username: str, password: str) -> NacosAIMaintainerService:
    folder = os.environ["HOME"]
    config = ClientConfigBuilder().server_address(",".join(servers)).log_dir(folder).cache_dir(folder)
    return await NacosAIMaintainerService.create_ai_service(config.username(username).password(password).build())


def methods() -> list[str]:
    """The public methods of a service, without those that make one."""
    found = inspect.getmembers(NacosAIMaintainerService, inspect.iscoroutinefunction)
    return [
        name for name, method in found if not name.startswith("_") and "self" in inspect.signature(method).parameters
    ]


def sample(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_construct(name="sample")
    return SAMPLES[kind]


async def call(client: NacosAIMaintainerService, name: str) -> Any:
    method = getattr(client, name)
    kinds = {key: kind for key, kind in get_type_hints(method).items() if key != "return"}
    return await method(**{key: sample(kind) for key, kind in kinds.items()})


async def main() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        fields = json.loads(line)
        op, name = fields.pop("op"), fields.pop("client")
        try:
            if op == "open":
                clients[name] = await open_client(**fields)
                put({"result": True})
            elif op == "methods":
                put({"result": methods()})
            else:
                put({"result": await call(clients[name], op)})
        except Exception as error:  # whatever the library raises is what its user gets
            put({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    asyncio.run(main())
