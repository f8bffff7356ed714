"""ClientTable: the changes of a client as other members get them, and the bytes that a client publishes."""

from app.naming.clients.client_model import ClientInfo
from app.naming.clients.clients import build_clients
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.model.types import Version

WRITER, CLIENT = "m:1~1", "c1"
NAMES = ("G@@a", "G@@b", "G@@c")


class Bed:
    """A member with one client, which publishes three services."""

    def __init__(self) -> None:
        self.registry = Registry.of(WRITER)
        self.clients = build_clients(self.registry, lambda: 1_000, lambda: 1_700_000_000_000, lambda _event: None)
        self.clients.own.connect(ClientInfo(CLIENT, "10.0.0.9", 5000, "shop", "agent"))
        for name in NAMES:
            self.register(name)

    def register(self, name: str, **metadata: str) -> None:
        self.clients.own.register(CLIENT, RegisterInstance(name, "10.0.0.1", 80, metadata=metadata))

    def version(self) -> Version:
        found = self.clients.table.version(CLIENT)
        assert found is not None
        return found


def test_the_changes_since_a_version_are_those_services_alone() -> None:
    bed = Bed()
    base, table = bed.version(), bed.clients.table
    assert table.delta(CLIENT, base) is None, "there are none"
    bed.register(NAMES[1], v="2")
    bed.clients.own.deregister(CLIENT, "public", NAMES[2])
    delta = table.delta(CLIENT, base)
    assert delta is not None
    assert delta.state is not None
    assert delta.version == bed.version()
    assert delta.state.revision == bed.version().counter
    assert delta.state.publications.keys() == {("public", NAMES[1])}
    assert delta.state.gone == {("public", NAMES[2])}
    last = table.delta(CLIENT, base.next(WRITER))
    assert last is not None
    assert last.state is not None
    assert not last.state.publications
    assert last.state.gone == {("public", NAMES[2])}


def test_there_are_no_changes_since_what_is_no_former_version() -> None:
    bed = Bed()
    base, table = bed.version(), bed.clients.table
    bed.register(NAMES[1], v="2")
    assert table.delta(CLIENT, base) is not None
    for other in (
        Version(base.epoch, base.counter, "other:1~1"),
        Version(base.epoch + 1, base.counter, WRITER),
        bed.version().next(WRITER),
        Version(base.epoch, 0, WRITER),
    ):
        assert table.delta(CLIENT, other) is None
    assert table.delta("unknown", base) is None


def test_what_a_client_publishes_is_known_by_its_publication() -> None:
    bed = Bed()
    table, key = bed.clients.table, ("public", NAMES[0])
    former = table.publications(key)[CLIENT]
    assert table.publishes(CLIENT, key, former)
    assert not table.publishes("unknown", key, former)
    assert not table.publishes(CLIENT, ("public", NAMES[1]), former)
    bed.register(NAMES[0], v="2")
    assert not table.publishes(CLIENT, key, former)
    assert table.publishes(CLIENT, key, table.publications(key)[CLIENT])


def test_the_bytes_of_a_client_are_those_of_what_it_publishes_now() -> None:
    bed = Bed()
    client = bed.clients.table.client(CLIENT)
    assert client is not None
    bed.register(NAMES[0], v="1234")
    bed.register(NAMES[1], v="12")
    assert (client.instances, client.metadata_bytes) == (3, 8)
    bed.register(NAMES[0], v="1")
    assert (client.instances, client.metadata_bytes) == (3, 5)
    bed.clients.own.deregister(CLIENT, "public", NAMES[1])
    assert (client.instances, client.metadata_bytes) == (2, 2)
