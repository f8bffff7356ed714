"""A Rollcall member with a link to a Nacos: its answers to the calls of ``rollcall migrate``, which a test writes."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.support.tiny_server import Given, Received

MEMBERS = ("10.1.0.1:8848", "10.1.0.2:8848")
CLUSTER_ID = "dc-a"
Place = tuple[str, str, str]
"""Namespace, full name and IP of an instance at port 80 in the cluster DEFAULT."""


@dataclass
class FakeLinked:
    """Answers for ``tiny_server``."""

    servers: list[str] = field(default_factory=lambda: ["10.2.0.1:8848"])
    name: str = "old"
    direction: str = "both"
    at: tuple[str, ...] = MEMBERS
    """The members that have the link."""
    silent: dict[str, str] = field(default_factory=dict)
    """Why it is silent, by member."""
    absent: dict[str, str] = field(default_factory=dict)
    """Members that do not answer, and why."""
    refusal: str = ""
    namespace_map: dict[str, str] = field(default_factory=dict)
    services: tuple[str, ...] = ("*",)
    """Patterns of the services that the link chooses."""
    local: list[Place] = field(default_factory=list)
    brought: list[Place] = field(default_factory=list)
    dumps: int = 0

    def __call__(self, received: Received) -> Given:
        path = urlsplit(received.target).path.removeprefix("/nacos")
        match path:
            case "/v1/ns/link/list":
                told = [{"address": one, "error": "", "links": self._links(one)} for one in MEMBERS]
                silent = [{"address": one, "error": why, "links": []} for one, why in self.absent.items()]
                return _json({"cluster": CLUSTER_ID, "members": [*told, *silent]})
            case "/v1/ns/operator/dump":
                self.dumps += 1
                lines = "".join(f"{json.dumps(one)}\n" for one in self._rows())
                return Given(200, lines.encode(), {"Content-Type": "application/x-ndjson"})
        return Given(404, b"{}", {"Content-Type": "application/json"})

    def _links(self, member: str) -> list[dict[str, Any]]:
        if member not in self.at:
            return []
        why = self.silent.get(member, "")
        fields = {"name": self.name, "kind": "nacos", "direction": self.direction, "servers": self.servers}
        return [{**fields, "cluster": "nacos:old", "silent": bool(why), "error": why, "refusal": self.refusal}]

    def _rows(self) -> list[dict[str, Any]]:
        link = {"name": self.name, "cluster": "nacos:old", "namespace_map": self.namespace_map}
        chosen = {"namespaces": ["*"], "groups": ["*"], "services": list(self.services)}
        header = {"kind": "member", "format": 1, "address": MEMBERS[0], "cluster": CLUSTER_ID}
        return [
            {**header, "links": [{**link, **chosen}] if self.at else []},
            *(_row("instance", one) for one in self.local),
            *({**_row("linked", one), "name": self.name} for one in self.brought),
            {"kind": "end", "services": 0, "instances": len(self.local)},
        ]


def _row(kind: str, place: Place) -> dict[str, Any]:
    namespace, service, ip = place
    row = {"kind": kind, "namespace": namespace, "service": service, "ip": ip, "port": 80, "cluster": "DEFAULT"}
    return {**row, "metadata": {}}


def _json(value: Any) -> Given:
    return Given(200, json.dumps(value).encode(), {"Content-Type": "application/json"})
