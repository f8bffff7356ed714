"""Members that hold connections, their clients, and the invariants that every member must keep at quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from app.naming.clients.client_copies import EXPIRY_MS
from app.naming.clients.client_model import Client, ClientInfo
from app.naming.model.events import ClientDisconnect
from app.naming.registry.operations import RegisterInstance
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.tools.simulation.member.member import SimMember
from app.tools.simulation.world.invariants import Broken, Invariant
from app.tools.simulation.world.world import World
from distro.model.ports import Component
from distro.model.types import Version

SERVICES = [f"DEFAULT_GROUP@@rpc{number}" for number in range(5)]
ADDRESSES = [f"10.9.0.{number}" for number in range(1, 13)]


class ConnectedMember(SimMember):
    """A member with the third resource type. Connections end with its process."""

    left_out = frozenset({HTTP_CLIENTS})
    expiry_ms = EXPIRY_MS
    confirms = True

    def build(self) -> None:
        self.dropped: list[str] = []
        self.verify_failed: list[tuple[str, str]] = []
        """The clients of this member of which a peer had another state, with that peer."""
        self.settings = replace(self.settings, client_expiry_ms=self.expiry_ms)
        super().build()
        self.connections = self.node.domain.clients
        self.node.domain.notify.subscribe(ClientDisconnect, self._on_disconnect)

    def component(self, resource_type: str, made: Component) -> Component:
        made = super().component(resource_type, made)
        if resource_type != CLIENTS:
            return made
        return replace(
            made,
            on_verified=made.on_verified if self.confirms else None,
            on_compared=made.on_compared if self.confirms else None,
            on_verify_failed=lambda key, peer: self.verify_failed.append((key, peer)),
        )

    def _on_disconnect(self, event: ClientDisconnect) -> None:
        if not event.native:
            self.dropped.append(event.client_id)
            self.world.trace(self.address, f"drops its copy of {event.client_id}")

    def native(self) -> list[Client]:
        found = [self.connections.table.client(one) for one in self.connections.table.ids()]
        return [one for one in found if one is not None and one.native]

    def published(self) -> dict[str, tuple[Version, dict[Any, Any]]]:
        """Return the clients that ever published something, each with its version and instances."""
        found = [self.connections.table.client(one) for one in self.connections.table.ids()]
        return {one.client_id: (one.version, dict(one.published)) for one in found if one is not None and one.revision}

    def shown(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return the instances that readers see, by service."""
        views = {name: self.naming.service_view("public", name) for name in SERVICES}
        return {
            name: sorted((one.key, one.weight, one.healthy, one.instance_id) for one in view.instances)
            for name, view in views.items()
            if view is not None and view.instances
        }


class SimConnections:
    """SDKs of 2.x: each holds one connection to one member, changes its instances, and leaves or is cut off."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0
        self.ended: set[str] = set()

    def members(self) -> list[ConnectedMember]:
        return [one for one in self._world.running() if isinstance(one, ConnectedMember)]

    def connect(self, member: ConnectedMember | None = None, *, publishes: bool = True) -> str | None:
        """Open a connection, and maybe publish something; return None if the member takes no connection."""
        world = self._world
        if member is None:
            serving = [one for one in self.members() if one.serving]
            if not serving:
                return None
            member = world.choice(serving)
        self._count += 1
        client_id = f"{world.now_ms}_10.9.0.{self._count}_{self._count}"
        member.connections.own.connect(ClientInfo(client_id, f"10.9.0.{self._count}", self._count, "app", "sdk"))
        world.trace(client_id, f"connects to {member.address}")
        if publishes:
            self.change(member, client_id)
        return client_id

    def come_back(self, member: ConnectedMember, instance: RegisterInstance) -> None:
        """Connect to another member, as asked, and publish an instance again."""
        client_id = self.connect(member, publishes=False)
        assert client_id is not None
        member.connections.own.register(client_id, instance)

    def command(self, service: str) -> RegisterInstance:
        world = self._world
        return RegisterInstance(
            service,
            world.choice(ADDRESSES),
            80,
            weight=world.choice((1.0, 2.0, 3.0)),
            healthy=world.chance(0.9),
            enabled=world.chance(0.9),
            metadata={"zone": world.choice("ab")} if world.chance(0.5) else {},
        )

    def change(self, member: ConnectedMember, client_id: str) -> None:
        """Make one change over a connection, if it still exists."""
        world = self._world
        client = member.connections.table.client(client_id)
        if client is None or not client.native or client.ended or not member.serving:
            return
        service = world.choice(SERVICES)
        kind = world.between(0, 9)
        if kind <= 4:
            member.connections.own.register(client_id, self.command(service))
        elif kind <= 7:
            batch = [self.command(service) for _ in range(world.between(0, 4))]
            member.connections.own.batch_register(client_id, "public", service, batch)
        else:
            member.connections.own.deregister(client_id, "public", service)

    def end(self, member: ConnectedMember, client_id: str) -> None:
        """End a connection. Its member learns of it at once if it runs."""
        if member.serving and member.connections.own.disconnect(client_id):
            self._world.trace(client_id, f"is gone from {member.address}")
            self.ended.add(client_id)

    def live(self, at_ms: int, span_ms: int) -> None:
        """Schedule the life of one connection, beginning ``at_ms`` from now."""
        world = self._world

        def begin() -> None:
            client_id = self.connect()
            if client_id is None:
                return
            member = next(one for one in self.members() if one.connections.table.client(client_id) is not None)
            for _ in range(world.between(0, 6)):
                world.after(world.between(0, span_ms), partial(self.change, member, client_id))
            if world.chance(0.6):
                world.after(world.between(0, span_ms), partial(self.end, member, client_id))

        world.after(at_ms, begin)

    def are_handed_over(self) -> bool:
        """Return whether a member still keeps clients of a run that is over until they are back elsewhere."""
        return any(
            member.reader.is_handing_over(version.writer)
            for member in self.members()
            for version, _ in member.published().values()
        )

    # --- invariants ---------------------------------------------------------------------------

    def check_quiet(self) -> None:
        """Check that all members hold exactly the connected clients, each as its own member holds it."""
        expected: dict[str, Any] = {}
        for member in self.members():
            expected |= {one.client_id: (one.version, dict(one.published)) for one in member.native() if one.revision}
        shown: dict[str, Any] | None = None
        for member in self.members():
            stored = member.published()
            for client_id in sorted(expected.keys() | stored.keys()):
                if stored.get(client_id) != expected.get(client_id):
                    raise self._broken(member, client_id, stored.get(client_id), expected.get(client_id))
            first = member.shown() if shown is None else shown
            shown = first
            if member.shown() != first:
                raise self._broken(member, "lists", member.shown(), first)
        if back := self.ended & expected.keys():
            raise Broken(f"seed {self._world.seed}: {back} came back", Invariant.GONE)

    def _broken(self, member: ConnectedMember, what: str, stored: object, expected: object) -> Broken:
        text = f"seed {self._world.seed}: {member.address} has for {what}: {stored}, not {expected}"
        return Broken(text, Invariant.AGREEMENT)

    def copies(self, client_id: str) -> Iterator[ConnectedMember]:
        """Yield the members that hold a client, including its own."""
        return (one for one in self.members() if one.connections.table.client(client_id) is not None)
