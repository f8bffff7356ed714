"""Clients over HTTP, found by the keys of their instances, against the ids of all instances."""

from hypothesis import example, given
from hypothesis import strategies as st

from app.naming.model.model import Instance
from app.naming.registry.http_publishers import address_client_id, address_clients, instances_of_address
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from distro.timing.sliced import in_order

IPS = ["10.0.0.1", "10.0.0.10", "host-0", "unknown", "2001:db8::1", "fe80::1:8080"]
PORTS = [0, 1, 80, 8_080]
CLUSTERS = ["DEFAULT", "B", "10", "true"]
PLACES = st.tuples(
    st.sampled_from(["G@@a", "G@@b", "G@@c"]),
    st.sampled_from(IPS),
    st.sampled_from(PORTS),
    st.sampled_from(CLUSTERS),
    st.booleans(),
)
PARTS = [
    "",
    ":",
    "#",
    "0",
    "10",
    "80",
    "8080",
    "a",
    "u",
    "un",
    "unknown",
    "DEFAULT",
    "B",
    "t",
    "true",
    "false",
    ":80#t",
]
PARTS += ["10.0.0.1:", "10.0.0.1:80", "0.1:8080#true", "0#f", "::1", "1:80", "1:0#", "host", "known:"]


@given(st.lists(PLACES, max_size=12), st.sampled_from(PARTS), st.integers(0, 5), st.integers(0, 5))
@example([("G@@a", "fe80::1:8080", 0, "B", True), ("G@@a", "fe80::1:8080", 0, "DEFAULT", False)], "0#", 0, 2)
@example([("G@@a", "10.0.0.1", 80, "B", True), ("G@@b", "10.0.0.1", 80, "DEFAULT", True)], "B", 0, 1)
def test_clients_are_those_of_all_instances(
    places: list[tuple[str, str, int, str, bool]], contained: str, first: int, size: int
) -> None:
    registry = Registry.of("10.0.0.1:8848~1")
    expected: dict[str, set[tuple[str, str]]] = {}
    for service, ip, port, cluster, ephemeral in places:
        one = Instance(ip, port, cluster, ephemeral=ephemeral)
        if ephemeral:
            registry.writes.register(RegisterInstance(service, ip, port, cluster=cluster), 0)
        else:
            registry.table.set_persistent("public", service, one.key, one, 0)
        expected.setdefault(address_client_id(ip, port, ephemeral=ephemeral), set()).add((service, cluster))
    found = address_clients(registry.table, contained)
    wanted = {one for one in expected if contained in one}
    assert set(found.ids_of(found.found)) == wanted
    assert len(found) == len(wanted)
    assert found.ids_of(in_order(found.found, first, first + size)) == found.ids_of(sorted(found.found))[first:][:size]
    for client_id, held in expected.items():
        instances = list(instances_of_address(registry.table, client_id))
        assert {(service.full_name, one.cluster_name) for service, one in instances} == held
        assert len(instances) == len(held)
