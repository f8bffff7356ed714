"""Does with nacos-sdk-python what the lines on its input say; program.py has the shape of all lines."""

import json
import logging
import os
import sys
import threading
from typing import Any

import nacos
from nacos.listener import SubscribeListener

BEAT_INTERVAL_S = 5
POLL_INTERVAL_S = 1
"""Every so many seconds the library lists a service that was subscribed to; 7 by default."""
GROUP = "DEFAULT_GROUP"
KINDS = {"ADDED": "added", "MODIFIED": "changed", "DELETED": "removed"}

output_lock = threading.Lock()
clients: dict[str, nacos.NacosClient] = {}


def put(value: dict[str, Any]) -> None:
    with output_lock:
        print(json.dumps(value), flush=True)


def open_client(
    name: str, servers: list[str], namespace: str = "public", username: str | None = None, password: str | None = None
) -> None:
    user = {"username": username, "password": password}
    clients[name] = nacos.NacosClient(
        ",".join(servers), namespace=namespace, logDir="logs", log_level=logging.INFO, **user
    )


def register(
    name: str, service: str, ip: str, port: int, cluster: str, weight: float, metadata: dict[str, str]
) -> bool:
    # A cluster is always named: without one the library registers in one cluster and beats in another.
    return clients[name].add_naming_instance(
        service, ip, port, cluster, weight, metadata, group_name=GROUP, heartbeat_interval=BEAT_INTERVAL_S
    )


def change(name: str, service: str, ip: str, port: int, cluster: str, weight: float, metadata: dict[str, str]) -> bool:
    return clients[name].modify_naming_instance(service, ip, port, cluster, weight, metadata, group_name=GROUP)


def deregister(name: str, service: str, ip: str, port: int, cluster: str) -> bool:
    return clients[name].remove_naming_instance(service, ip, port, cluster, group_name=GROUP)


def list_instances(name: str, service: str) -> list[dict[str, Any]]:
    hosts: list[dict[str, Any]] = clients[name].list_naming_instance(service, group_name=GROUP)["hosts"]
    return hosts


def subscribe(name: str, service: str) -> bool:
    def listener(event: str, instance: Any) -> None:
        if event in KINDS:
            host = instance.instance
            where = f"{host['ip']}:{host['port']}"
            put({"event": KINDS[event], "client": name, "service": service, "instance": where})

    named = SubscribeListener(fn=listener, listener_name=f"{name}-{service}")
    clients[name].subscribe(named, POLL_INTERVAL_S, service_name=service, group_name=GROUP)
    return True


def close(name: str) -> bool:
    client = clients.pop(name)
    for beats in client.heartbeats.values():
        beats.stop()
    client.stop_subscribe()
    return True


OPS = {
    "open": open_client,
    "register": register,
    "change": change,
    "deregister": deregister,
    "list": list_instances,
    "subscribe": subscribe,
    "close": close,
}


def main() -> None:
    for line in sys.stdin:
        fields = json.loads(line)
        op, name = fields.pop("op"), fields.pop("client")
        try:
            put({"result": OPS[op](name, **fields)})
        except Exception as error:  # whatever the library raises is what its user gets
            put({"error": f"{type(error).__name__}: {error}"})
    # The library's timers are threads that do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
