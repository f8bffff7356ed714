"""A real Nacos alone, which a cluster links, and the calls of tests about such links."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from app.tools.embedded.embedded_node import EmbeddedNode
from app.tools.embedded.errors_of_use import CallRefused
from tests.peers.conftest import SEEN_TIMEOUT_S, skip_without_tools, taken
from tests.peers.real_members import RealMember
from tests.peers.test_real_nacos_2 import PATIENT, listed
from tests.support.client import Client
from tests.support.processes import eventually, free_ports

SEEN_S = float(SEEN_TIMEOUT_S)
ORIGIN = "rollcall.origin"
LINK_NAME = "old"
Answered = TypeVar("Answered")


def done(call: Callable[..., None], *arguments: Any, **values: Any) -> None:
    """Make a call at a member here; again while the member refuses it, because this machine had no time for it."""

    def is_taken() -> bool:
        try:
            call(*arguments, **values)
        except CallRefused as error:
            if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return False
        return True

    eventually(is_taken, SEEN_S)


def answered(call: Callable[..., Answered], *arguments: Any, **values: Any) -> Answered:
    """Return the answer of a member here.

    Raises:
        AssertionError: it refuses all calls now, because this machine had no time for it. For ``eventually``: not yet.
    """
    try:
        return call(*arguments, **values)
    except CallRefused as error:
        if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise AssertionError(str(error)) from error
        raise


@dataclass(frozen=True, slots=True)
class RealNacos:
    """A server alone, and the calls of its clients."""

    client: Client
    kind: str
    """As a link names it."""
    _member: RealMember

    def register(self, service: str, ip: str, **values: object) -> None:
        """Register an instance that needs no beats for minutes."""
        taken(self.client, "POST", "/v1/ns/instance", serviceName=service, ip=ip, port=80, metadata=PATIENT, **values)

    def update(self, service: str, ip: str, **values: object) -> None:
        """Change an instance as an operator does, whoever registered it."""
        taken(self.client, "PUT", "/v1/ns/instance", serviceName=service, ip=ip, port=80, **values)

    def deregister(self, service: str, ip: str) -> None:
        taken(self.client, "DELETE", "/v1/ns/instance", serviceName=service, ip=ip, port=80)

    def lists(self, service: str, *ips: str) -> bool:
        return listed(self.client, service) == {f"{one}:80" for one in ips}

    def origins(self, service: str) -> dict[str, str | None]:
        """The origin of each instance of a service."""
        hosts = self.client.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
        return {one["ip"]: one["metadata"].get(ORIGIN) for one in hosts}

    def weights(self, service: str) -> dict[str, float]:
        """The weight of each instance of a service."""
        hosts = self.client.call("GET", "/v1/ns/instance/list", serviceName=service).json()["hosts"]
        return {one["ip"]: one["weight"] for one in hosts}

    def end(self) -> None:
        """Stop the server."""
        self._member.stop()


@contextlib.contextmanager
def real_nacos(release: str, folder: Path) -> Iterator[RealNacos]:
    """Run a real Nacos of this line of releases, alone, until the block ends."""
    skip_without_tools()
    [port] = free_ports(1)
    member = RealMember(release, port, folder / f"real-{port}", [f"127.0.0.1:{port}"])
    try:
        member.begin()
        member.wait()
        yield RealNacos(member.client, "nacos1" if release == "1.4" else "nacos", member)
    finally:
        member.stop()


def linked_with(real: RealNacos, direction: str) -> dict[str, str]:
    values = {"servers": real.client.address, "kind": real.kind, "direction": direction}
    return {f"rollcall.link.{LINK_NAME}.{name}": value for name, value in values.items()}


def write_links(members: Sequence[EmbeddedNode], settings: dict[str, str]) -> None:
    """Write these settings in the file that each member reads again while it runs."""
    for one in members:
        file = one._life.settings.links.file
        assert file is not None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def links_of(member: EmbeddedNode) -> list[dict[str, object]]:
    [told] = json.loads(answered(member.call, "GET", "/v1/ns/link/list", local="true"))["members"]
    return list(told["links"])


def link_of(member: EmbeddedNode) -> dict[str, object]:
    [link] = links_of(member)
    return link


def seen(member: EmbeddedNode, service: str) -> set[str]:
    return {one.ip for one in answered(member.instances, service)}
