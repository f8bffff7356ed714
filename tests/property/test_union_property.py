"""A service's view as the union of its sources, against a plain model that remembers who said what and when."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.naming.clients.client_model import ClientInfo
from app.naming.clients.clients import build_clients
from app.naming.model.keys import instance_key
from app.naming.model.model import Instance
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.naming.registry.registry import Registry
from tests.support.registry_parts import naming_of
from tests.support.thorough import examples

SERVICE = "G@@a"
KEY = ("public", SERVICE)
HTTP, DURABLE = "http", "durable"
addresses = st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2"]), st.sampled_from([0, 80]), st.sampled_from(["A", "B"]))
client_ids = st.sampled_from(["c1", "c2", "c3"])
weights = st.sampled_from([0.0, 1.0, 2.0, 3.0])


@dataclass(frozen=True)
class Registered:
    """What a source says of an address: the count of when, weight and health."""

    turn: int
    weight: float
    healthy: bool


class Sources(RuleBasedStateMachine):
    """``registered`` is the truth: by source (a client, or one of two kinds over HTTP), then by instance key."""

    @initialize()
    def begin(self) -> None:
        self.turn = 0
        self.registry = Registry.of("m:1~1", alone=True)
        self.naming = naming_of(self.registry, self.now, lambda _event: None)
        self.clients = build_clients(self.registry, self.now, self.now, lambda _event: None)
        self.registered: dict[str, dict[str, Registered]] = {HTTP: {}, DURABLE: {}}

    def now(self) -> int:
        return self.turn

    def command(self, address: tuple[str, int, str], weight: float, healthy: bool) -> RegisterInstance:
        ip, port, cluster = address
        return RegisterInstance(SERVICE, ip, port, cluster=cluster, weight=weight, healthy=healthy)

    def say(self, source: str, registered: dict[str, tuple[float, bool]]) -> None:
        """Of a source that says again just what it says, nothing is newer."""
        old = {key: (one.weight, one.healthy) for key, one in self.registered.get(source, {}).items()}
        if old != registered or source not in self.registered:
            self.registered[source] = {key: Registered(self.turn, *one) for key, one in registered.items()}

    @rule(client_id=client_ids)
    def connect(self, client_id: str) -> None:
        self.clients.own.connect(ClientInfo(client_id, "", 0, "", ""))

    @rule(client_id=client_ids)
    def disconnect(self, client_id: str) -> None:
        connected = self.clients.table.client(client_id) is not None
        assert self.clients.own.disconnect(client_id) is connected
        self.clients.copies.forget(client_id)  # so that the id may be used again
        self.registered.pop(client_id, None)

    @rule(client_id=client_ids, address=addresses, weight=weights, healthy=st.booleans())
    def publish(self, client_id: str, address: tuple[str, int, str], weight: float, healthy: bool) -> None:
        if self.clients.table.client(client_id) is None or self.is_persistent():
            return
        self.turn += 1
        was_batch = self.is_batch(client_id)
        self.clients.own.register(client_id, self.command(address, weight, healthy))
        if was_batch:
            self.registered.pop(client_id, None)
        self.say(client_id, {instance_key(*address): (weight, healthy)})

    @rule(
        client_id=client_ids,
        batch=st.dictionaries(addresses, st.tuples(weights, st.booleans()), max_size=4),
    )
    def publish_batch(self, client_id: str, batch: dict[tuple[str, int, str], tuple[float, bool]]) -> None:
        if self.clients.table.client(client_id) is None or self.is_persistent():
            return
        self.turn += 1
        commands = [self.command(address, *rest) for address, rest in batch.items()]
        was_batch = self.is_batch(client_id)
        self.clients.own.batch_register(client_id, *KEY, commands)
        if was_batch is False:
            self.registered.pop(client_id, None)
        self.say(client_id, {instance_key(*address): rest for address, rest in batch.items()})

    def is_batch(self, client_id: str) -> bool | None:
        client = self.clients.table.client(client_id)
        publication = client.published.get(KEY) if client else None
        return publication.batch if publication else None

    @rule(client_id=client_ids)
    def take_back(self, client_id: str) -> None:
        if self.clients.table.client(client_id) is not None:
            self.clients.own.deregister(client_id, *KEY)
            self.registered.pop(client_id, None)

    @rule(address=addresses, weight=weights)
    def register_over_http(self, address: tuple[str, int, str], weight: float) -> None:
        key = instance_key(*address)
        old = self.registered[HTTP].get(key)
        self.turn += 1
        self.naming.register(self.command(address, weight, True))
        if old is None or old.weight != weight:
            self.registered[HTTP][key] = Registered(self.turn, weight, old.healthy if old else True)

    @rule(address=addresses, healthy=st.booleans())
    def set_health(self, address: tuple[str, int, str], healthy: bool) -> None:
        key = instance_key(*address)
        self.naming.set_health(*KEY, key, healthy)
        if old := self.registered[HTTP].get(key):
            self.registered[HTTP][key] = Registered(old.turn, old.weight, healthy)

    @rule(address=addresses)
    def deregister_over_http(self, address: tuple[str, int, str]) -> None:
        ip, port, cluster = address
        removed = self.naming.deregister(DeregisterInstance(SERVICE, ip, port, cluster=cluster))
        was_registered = self.registered[HTTP].pop(instance_key(*address), None) is not None
        assert (removed is not None and removed.before is not None) is was_registered

    @rule(address=addresses, weight=weights, healthy=st.booleans(), there=st.booleans())
    def decide(self, address: tuple[str, int, str], weight: float, healthy: bool, there: bool) -> None:
        ip, port, cluster = address
        one = Instance(ip, port, cluster, SERVICE, weight, healthy, ephemeral=False)
        self.registry.table.set_persistent(*KEY, one.key, one if there else None, self.turn)
        self.registered[DURABLE].pop(one.key, None)
        if there:
            self.registered[DURABLE][one.key] = Registered(self.turn, weight, healthy)

    def is_persistent(self) -> bool:
        of_clients = any(self.clients.table.publishers(*KEY))
        return bool(self.registered[DURABLE]) and not self.registered[HTTP] and not of_clients

    @invariant()
    def the_view_is_the_union(self) -> None:
        clients = [registered for source, registered in self.registered.items() if source not in (HTTP, DURABLE)]
        durable, listed = self.registered[DURABLE], self.registered[HTTP]
        expected = []
        for key in {key for registered in self.registered.values() for key in registered}:
            of_clients = [registered[key] for registered in clients if key in registered]
            others = [(True, durable[key])] if key in durable else []
            if key in listed and (key in durable or not of_clients):
                expected.append((key, True, listed[key].weight, listed[key].healthy))
            elif key in listed:
                of_clients.append(listed[key])
            sources = [*of_clients, *(registered for _, registered in others)]
            if sources:
                newest = durable.get(key) or max(sources, key=lambda registered: registered.turn)
                healthy = any(registered.healthy for registered in sources)
                expected.append((key, key not in durable, newest.weight, healthy))
        view = self.naming.service_view(*KEY)
        shown = [(one.key, one.ephemeral, one.weight, one.healthy) for one in view.instances] if view else []
        assert sorted(shown) == sorted(expected)
        assert self.naming.counts(lambda _name: True).instances == len(shown)


TestSources = Sources.TestCase
TestSources.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
