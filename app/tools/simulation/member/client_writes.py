"""Writes of clients, each as one call of Nacos's API, and the clients' reading of the answers."""

import enum
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from app.http.api.call import Call, Reply
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, datum_key, instance_key
from app.naming.records.record_keys import persistent_key

SEQUENCE = "sequence"
"""A parameter that no endpoint knows: the number of the call among those of the world's clients."""


class Answered(enum.Enum):
    """A client's reading of an answer."""

    OK = "ok"
    UNKNOWN = "20404"
    UNAVAILABLE = "503"


class WriteKind(enum.Enum):
    REGISTER = "POST", "/v1/ns/instance"
    DEREGISTER = "DELETE", "/v1/ns/instance"
    BEAT = "PUT", "/v1/ns/instance/beat"


@dataclass(frozen=True, slots=True)
class Write:
    """A client's request, as one call: ``sequence`` distinguishes it from all others of the world.

    ``revision`` marks the attributes of a registration.
    """

    kind: WriteKind
    service: str
    ip: str
    port: int
    revision: int
    sequence: int = 0
    ephemeral: bool = True

    @property
    def datum_key(self) -> str:
        return datum_key(DEFAULT_NAMESPACE, self.service)

    @property
    def instance_key(self) -> str:
        return instance_key(self.ip, self.port, DEFAULT_CLUSTER)

    @property
    def key(self) -> str:
        """The key of its datum or record."""
        if self.ephemeral:
            return self.datum_key
        return persistent_key(DEFAULT_NAMESPACE, self.service, self.instance_key)

    @property
    def text(self) -> str:
        """The request as text."""
        revision = f", revision {self.revision}" if self.kind is WriteKind.REGISTER else ""
        where = self.datum_key if self.ephemeral else self.service
        return f"{self.kind.name.lower()} {self.instance_key} of {where}{revision}"

    def call(self) -> Call:
        """Return the call of Nacos's API."""
        method, path = self.kind.value
        fields: dict[str, Any] = {
            SEQUENCE: self.sequence,
            "serviceName": self.service,
            "ip": self.ip,
            "port": self.port,
        }
        if not self.ephemeral:
            fields["ephemeral"] = "false"
        if self.kind is WriteKind.REGISTER:
            fields["metadata"] = orjson.dumps({"revision": str(self.revision)}).decode()
        return Call(method, path, urlencode(fields).encode(), {"user-agent": "sim"}, b"", self.ip)


def read_answer(reply: Reply) -> Answered:
    """Return a client's reading of the answer to its write; an answer that no client should get fails the test."""
    if reply.status >= 500:
        return Answered.UNAVAILABLE
    assert reply.status == 200, (reply.status, reply.body)
    return Answered.UNKNOWN if b"20404" in reply.body else Answered.OK
