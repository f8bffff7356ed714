"""Parts of attacks: raw calls to a node from any loopback address, and a summary of all its data."""

import http.client
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from scripts.support.member_processes import tls_of
from scripts.support.raw_sockets import Target, Wrong, is_refusal, statuses, with_token

CONTEXT = "/nacos"
INSTANCE = f"{CONTEXT}/v1/ns/instance"
TIMEOUT_S = 30.0
STRANGER = "127.0.0.77"
"""A loopback address that belongs to no member."""
VOLATILE = ("beat_age_ms", "silent_ms", "taken_ms", "set_age_ms", "age_ms")


@dataclass(frozen=True, slots=True)
class Answered:
    """A status and a body."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Victim:
    """The member under attack, and the other members."""

    def __init__(
        self,
        address: str,
        others: tuple[str, ...],
        service: str,
        *,
        settings: Mapping[str, str] | None = None,
        plain_address: str = "",
        token: str = "",
    ) -> None:
        """``service``: an existing one with an instance at 10.1.1.1:80, owned by ``others[0]`` if there are others.

        ``settings`` of the members say whether they speak TLS; ``plain_address`` is then that of a tunnel to the first.
        ``token``: of an administrator, whose rights an attack has unless it must have none.
        """
        self.address = address
        self.others = others
        self.service = service
        self.token = token
        self._tls = tls_of(settings or {})
        self._plain_address = plain_address or address

    @property
    def has_users(self) -> bool:
        """True when the members require login."""
        return bool(self.token)

    @property
    def has_tls(self) -> bool:
        """True when the members accept only TLS."""
        return self._tls is not None

    @property
    def target(self) -> Target:
        """The first member, for clients that write raw bytes."""
        return Target.at(self._plain_address, self.token)

    def call(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        source: str = STRANGER,
        address: str = "",
        **parameters: str | int,
    ) -> Answered:
        """Send one request on a connection of its own."""
        host, _, port = (address or self.address).rpartition(":")
        if parameters:
            target = f"{target}?{urlencode(parameters)}"
        connection = self._connection(host, int(port), source)
        words = {"User-Agent": "attack"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        with closing(connection):
            connection.request(method, target, body, {**words, **(headers or {})})
            answer = connection.getresponse()
            return Answered(answer.status, answer.read())

    def _connection(self, host: str, port: int, source: str) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S, source_address=(source, 0))
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, source_address=(source, 0), context=self._tls)

    def raw(self, data: bytes, source: str = STRANGER) -> bytes:
        """Send bytes, end the connection's sending side, and return everything received."""
        host, _, port = self._plain_address.rpartition(":")
        data = with_token(data, self.token)
        answer = bytearray()
        with closing(socket.create_connection((host, int(port)), TIMEOUT_S, (source, 0))) as opened:
            try:
                opened.sendall(data)
                opened.shutdown(socket.SHUT_WR)
                while part := opened.recv(1 << 16):
                    answer += part
            except ConnectionError:
                pass
        return bytes(answer)

    def refused(self, method: str, target: str, *args: Any, **options: Any) -> None:
        """Make a call that must be refused.

        Raises:
            Wrong: it was accepted.
        """
        answer = self.call(method, target, *args, **options)
        if not is_refusal(answer.status):
            raise Wrong(f"{method} {target[:200]} is answered {answer.status} {answer.body[:200]!r}")

    def refused_raw(self, data: bytes, before: int = 0) -> None:
        """Send bytes; ``before`` requests must be answered, and the rest must be refused and end the connection.

        Raises:
            Wrong: the node behaved differently.
        """
        found = statuses(self.raw(data))
        if len(found) != before + 1 or found[:before] != [200] * before or not is_refusal(found[-1]):
            raise Wrong(f"{data[:200]!r} is answered {found}")

    def held(self) -> list[str]:
        """The data of every member, as lines, without fields that change with time."""
        lines = []
        for address in (self.address, *self.others):
            dump = self.call("GET", f"{CONTEXT}/v1/ns/operator/dump", address=address, source="127.0.0.1")
            if dump.status != 200:
                raise Wrong(f"the dump of {address} is answered {dump.status}")
            rows = map(json.loads, dump.body.splitlines())
            lines += [json.dumps(_lasting(row), sort_keys=True) for row in rows]
        return sorted(lines)


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in VOLATILE}
