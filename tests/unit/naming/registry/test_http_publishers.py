"""Clients over HTTP, found in the instance lists."""

from app.naming.model.model import Instance
from app.naming.registry.http_publishers import address_clients, instances_of_address
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.registry.service_table import ServiceTable

G = "DEFAULT_GROUP@@"


def filled() -> Registry:
    """Three addresses: one of two services and two clusters, one that is persistent too, one removed since."""
    registry = Registry.of("10.0.0.1:8848~1")
    for service, cluster in (("orders", "DEFAULT"), ("orders", "B"), ("stock", "DEFAULT")):
        registry.writes.register(RegisterInstance(f"{G}{service}", "10.0.0.7", 8_080, cluster=cluster), 0)
    registry.writes.register(RegisterInstance(f"{G}stock", "10.0.0.70", 8_080), 0)
    kept = Instance("10.0.0.70", 8_080, ephemeral=False)
    registry.table.set_persistent("public", f"{G}kept", kept.key, kept, 0)
    return registry


def ids(table: ServiceTable, contained: str = "") -> list[str]:
    clients = address_clients(table, contained)
    assert len(clients) == len(clients.found)
    return clients.ids_of(sorted(clients.found))


def test_an_address_is_one_client_however_much_it_registered() -> None:
    table = filled().table
    assert ids(table) == ["10.0.0.70:8080#true", "10.0.0.70:8080#false", "10.0.0.7:8080#true"]
    assert ids(table, "0.70:") == ["10.0.0.70:8080#true", "10.0.0.70:8080#false"]
    assert ids(table, "nobody") == []


def test_what_an_address_registered_is_found_by_its_whole_id() -> None:
    table = filled().table

    def found(client_id: str) -> list[tuple[str, str]]:
        return [(service.full_name, one.cluster_name) for service, one in instances_of_address(table, client_id)]

    assert found("10.0.0.7:8080#true") == [(f"{G}orders", "B"), (f"{G}orders", "DEFAULT"), (f"{G}stock", "DEFAULT")]
    assert found("10.0.0.70:8080#true") == [(f"{G}stock", "DEFAULT")]
    assert found("10.0.0.70:8080#false") == [(f"{G}kept", "DEFAULT")]
    for wrong in ("10.0.0.7:8081#true", "10.0.0.7:08080#true", "10.0.0.7:8080", "10.0.0.7", "", "#true"):
        assert found(wrong) == []
