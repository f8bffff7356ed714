"""What counts against the limits is what is there, after any history of writes, removals and received data.

The model knows nothing of how things are counted: after each step it looks through all services.
"""

from collections import Counter
from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.naming.changes import Changes
from app.naming.clients.client_model import ClientInfo, ClientSnapshot, ClientState
from app.naming.clients.clients import build_clients
from app.naming.limits.admission import Admission, NamingLimits, SubscriberTally
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Instance, Publication, Service
from app.naming.model.nacos_errors import InvalidParam, LimitReached
from app.naming.records.durable_service import DurableService
from app.naming.records.projection import Projection
from app.naming.records.records import Records
from app.naming.registry.operations import Beat, ChangeMetadata, DeregisterInstance, PatchInstance, RegisterInstance
from app.naming.registry.registry import Registry
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.types import NO_VERSION, Version
from tests.support.registry_parts import naming_of
from tests.support.thorough import examples

LIMITS = NamingLimits(
    namespaces=2,
    services_per_namespace=2,
    instances_per_namespace=6,
    instances_per_service=4,
    persistent_instances=3,
    metadata_bytes=40,
    subscribers=4,
)
NAMESPACES = ["n1", "n2", "n3"]
names = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(["G@@a", "G@@b", "G@@c"]))
ports = st.integers(1, 6)
metadata = st.sampled_from([{}, {"k": "v"}, {"key": "ä" * 5}, {"k": ""}])
client_ids = st.sampled_from(["c1", "c2", "c3"])


def size_of(fields: object) -> int:
    """The bytes of names and values, in the plainest way."""
    return sum(len(f"{name}{value or ''}".encode()) for name, value in dict(fields or {}).items())  # type: ignore[call-overload]


class Member:
    """One member's domain; ``limits`` None: it refuses nothing."""

    def __init__(self, writer: str, limits: NamingLimits | None, clock: list[int]) -> None:
        self.now = lambda: clock[0]
        self.admission = Admission(limits)
        self.tally = SubscriberTally(limits.subscribers if limits else 0)
        self.registry = Registry.of(writer, 5, 10, self.admission)
        self.table = self.registry.table
        self.naming = naming_of(self.registry, self.now, lambda _event: None)
        self.changes = Changes(self.registry.table, self.registry.replication, self.now, lambda _event: None)
        self.clients = build_clients(self.registry, self.now, self.now, lambda _event: None, tally=self.tally)
        self.disk = MemoryDisk()
        projection = Projection(self.registry.table, self.now, lambda _event: None)
        self.records = Records(writer, self.disk, self.now, self.now, projection.on_record)
        self.durable = DurableService(
            self.records, projection, self.registry.table, self.registry.writes, self.now, lambda _event: None
        )

    def published(self, service: Service) -> list[Instance]:
        return [one for part in (service.published or {}).values() for one in part.instances.values()]


class History(RuleBasedStateMachine):
    """``own`` has limits and is checked; ``peer`` has none, and what it holds comes to ``own`` by all ways."""

    @initialize()
    def begin(self) -> None:
        self.clock = [1_000]
        self.own = Member("a:1~1", LIMITS, self.clock)
        self.peer = Member("b:1~1", None, self.clock)
        self.revision = 0

    def both(self, of_peer: bool) -> Member:
        return self.peer if of_peer else self.own

    # --- writes of clients ------------------------------------------------------------------------

    @rule(of_peer=st.booleans(), name=names, port=ports, fields=metadata, durable=st.booleans())
    def register(self, of_peer: bool, name: tuple[str, str], port: int, fields: dict[str, str], durable: bool) -> None:
        member = self.both(of_peer)
        command = RegisterInstance(name[1], "10.0.0.1", port, name[0], metadata=fields, ephemeral=not durable)
        before = self.keys(member, name)
        try:
            if durable:
                member.durable.register(command)
            else:
                member.naming.register(command)
        except LimitReached:
            assert not of_peer
            assert self.keys(member, name) == before, "a refused write changes nothing"

    def keys(self, member: Member, name: tuple[str, str]) -> tuple[set[str], set[str]]:
        service = member.table.get(*name)
        return (set(service.stored), set(service.persistent)) if service is not None else (set(), set())

    @rule(name=names, port=ports, durable=st.booleans())
    def register_again(self, name: tuple[str, str], port: int, durable: bool) -> None:
        service = self.own.table.get(*name)
        key = f"10.0.0.1:{port}:unknown:DEFAULT"
        stored = service.stored.get(key) if service else None
        known = (service.persistent.get(key) if service else None) if durable else (stored and stored.instance)
        if known is None:
            return
        command = RegisterInstance(name[1], "10.0.0.1", port, name[0], metadata=known.metadata, ephemeral=not durable)
        (self.own.durable if durable else self.own.naming).register(command)  # never refused

    @rule(name=names, port=ports, fields=metadata)
    def beat(self, name: tuple[str, str], port: int, fields: dict[str, str]) -> None:
        key = f"10.0.0.1:{port}:unknown:DEFAULT"
        known = key in self.keys(self.own, name)[0]
        try:
            self.own.naming.beat(Beat(name[1], "10.0.0.1", port, name[0], full=True, metadata=fields))
        except LimitReached:
            assert not known, "the beat of an instance that is there is never refused"

    @rule(of_peer=st.booleans(), name=names, port=ports, durable=st.booleans())
    def deregister(self, of_peer: bool, name: tuple[str, str], port: int, durable: bool) -> None:
        member = self.both(of_peer)
        command = DeregisterInstance(name[1], "10.0.0.1", port, name[0], ephemeral=not durable)
        (member.durable if durable else member.naming).deregister(command)

    @rule(name=names, port=ports, fields=metadata, durable=st.booleans())
    def patch(self, name: tuple[str, str], port: int, fields: dict[str, str], durable: bool) -> None:
        command = PatchInstance(name[1], "10.0.0.1", port, name[0], metadata=fields)
        try:
            (self.own.durable if durable else self.own.naming).patch(command)
        except InvalidParam:
            assert not durable
        except LimitReached:
            pass

    @rule(name=names, port=ports, fields=metadata)
    def change_metadata(self, name: tuple[str, str], port: int, fields: dict[str, str]) -> None:
        key = f"10.0.0.1:{port}:unknown:DEFAULT"
        self.own.naming.set_metadata(*name, key, ChangeMetadata(put=fields, remove=frozenset({"key"})))

    @rule(name=names, fields=metadata)
    def describe(self, name: tuple[str, str], fields: dict[str, str]) -> None:
        with suppress(InvalidParam, LimitReached):
            self.own.durable.create_service(*name, ServiceMeta(metadata=fields))

    @rule(name=names)
    def remove_service(self, name: tuple[str, str]) -> None:
        try:
            self.own.durable.remove_service(*name)
        except InvalidParam:
            assert (found := self.own.table.get(*name)) is None or found.hidden

    # --- clients with connections -----------------------------------------------------------------

    @rule(client_id=client_ids, name=names, chosen=st.sets(ports, max_size=4), fields=metadata)
    def publish(self, client_id: str, name: tuple[str, str], chosen: set[int], fields: dict[str, str]) -> None:
        clients = self.own.clients
        if (known := clients.table.client(client_id)) is not None and not known.native:
            return
        clients.own.connect(ClientInfo(client_id, "", 0, "", ""))
        commands = [RegisterInstance(name[1], "10.0.0.1", port, name[0], metadata=fields) for port in chosen]
        before = dict(known.published) if known is not None else {}
        try:
            clients.own.batch_register(client_id, *name, commands)
        except LimitReached:
            assert dict(clients.table.client(client_id).published) == before  # type: ignore[union-attr]
        except InvalidParam:
            assert self.own.table.get(*name).persistent  # type: ignore[union-attr]

    @rule(client_id=client_ids, name=names)
    def subscribe(self, client_id: str, name: tuple[str, str]) -> None:
        known = self.own.clients.table.client(client_id)
        if known is not None and known.native:
            try:
                self.own.clients.subscriptions.subscribe(client_id, *name, "")
            except LimitReached:
                assert self.own.tally.grpc >= LIMITS.subscribers

    @rule(client_id=client_ids, name=names)
    def withdraw(self, client_id: str, name: tuple[str, str]) -> None:
        known = self.own.clients.table.client(client_id)
        if known is not None and known.native:
            self.own.clients.own.deregister(client_id, *name)
            self.own.clients.subscriptions.unsubscribe(client_id, *name)

    @rule(client_id=client_ids)
    def disconnect(self, client_id: str) -> None:
        known = self.own.clients.table.client(client_id)
        if known is not None and known.native:
            self.own.clients.own.disconnect(client_id)
            self.own.clients.copies.forget(client_id)  # so that the id may be used again

    @rule(client_id=client_ids, name=names, chosen=st.sets(ports, max_size=6), fields=metadata, gone=st.booleans())
    def copy(self, client_id: str, name: tuple[str, str], chosen: set[int], fields: dict[str, str], gone: bool) -> None:
        """A client of a peer, whose state comes here; no limit is asked."""
        client_id += "-of-peer"
        self.revision += 1
        instances = [Instance("10.0.0.1", port, service_name=name[1], metadata=fields) for port in chosen]
        publication = Publication({one.key: one for one in instances}, True, self.clock[0], NO_VERSION)
        state = None if gone else ClientState(client_id, self.revision, {name: publication})
        snapshot = ClientSnapshot(Version(1, self.revision, "b:1~1"), None, state)
        assert self.own.clients.copies.take(snapshot, client_id, self.own.clients.table.version(client_id))

    # --- what members exchange --------------------------------------------------------------------

    @rule(name=names, merges=st.booleans())
    def receive(self, name: tuple[str, str], merges: bool) -> None:
        """A list of the peer comes here, in place of that here or merged with it; no limit is asked."""
        theirs = self.peer.table.get(*name)
        found = list(self.peer.registry.lists.datums([theirs.key])) if theirs is not None else []
        for datum in found:
            if merges:
                self.own.registry.replication.merge(datum, self.clock[0])
            else:
                assert self.own.registry.replication.apply(
                    datum, self.own.registry.lists.version(datum.key), self.clock[0]
                )

    @rule(name=names, port=ports, fields=metadata, removes=st.booleans())
    def pass_on(self, name: tuple[str, str], port: int, fields: dict[str, str], removes: bool) -> None:
        """A write at the peer, which tells what it changed with its answer; the list before it is known here."""
        self.receive(name, False)
        if removes:
            self.deregister(True, name, port, False)
        else:
            self.register(True, name, port, fields, False)
        text = self.peer.changes.change_of(*name, f"10.0.0.1:{port}:unknown:DEFAULT")
        if text is not None:
            self.own.changes.take_change(text, self.clock[0])

    @rule()
    def receive_records(self) -> None:
        for key in self.peer.records.versions():
            [datum] = self.peer.records.datums([key])
            self.own.records.merge(datum, self.clock[0])

    @rule(name=names, absent=st.booleans())
    def forget(self, name: tuple[str, str], absent: bool) -> None:
        """The member is told to drop a list: all agreed, or no peer knows it any more."""
        if (found := self.own.table.get(*name)) is not None:
            self.own.registry.upkeep.forget(found.key, self.clock[0] if absent else None)

    @rule(name=names)
    def claim(self, name: tuple[str, str]) -> None:
        if (found := self.own.table.get(*name)) is not None:
            self.own.registry.replication.claim(found.key, self.clock[0])

    @rule(name=names, passed_ms=st.integers(1, 100))
    def expire(self, name: tuple[str, str], passed_ms: int) -> None:
        """Time passes, and the health check removes what has not beaten, and clears away."""
        self.clock[0] += passed_ms
        found = self.own.table.get(*name)
        if found is None:
            return
        for key, stored in list(found.stored.items())[:1]:
            self.own.registry.writes.remove(*name, key, self.clock[0], stored.beat_ms)
        self.own.registry.upkeep.drop_retained(found, self.clock[0])
        self.own.table.drop_bare(found, self.clock[0])

    # --- what is there ----------------------------------------------------------------------------

    @invariant()
    def counts_are_those_of_what_is_there(self) -> None:
        for member in (self.own, self.peer):
            per_namespace, persistent, size = Counter[str](), 0, 0
            for service in member.table.services():
                own = [*(stored.instance for stored in service.stored.values()), *service.persistent.values()]
                published = member.published(service)
                assert service.published_count == len(published)
                assert service.stored_bytes == sum(size_of(one.instance.metadata) for one in service.stored.values())
                per_namespace[service.namespace] += len(own) + len(published)
                persistent += len(service.persistent)
                size += sum(size_of(one.metadata) for one in own + published)
                size += size_of(service.meta.metadata) if service.meta else 0
            counts = member.table.counts_held
            assert {one: counts.instances_of(one) for one in NAMESPACES} == {
                one: per_namespace[one] for one in NAMESPACES
            }
            assert (counts.persistent, counts.metadata_bytes) == (persistent, size)
            clients = [member.clients.table.client(one) for one in member.clients.table.ids()]
            assert member.tally.grpc == sum(len(one.subscribed) for one in clients if one is not None)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=examples(150), stateful_step_count=60, deadline=None)
