"""The view of a service: made once for each revision, each address once."""

from dataclasses import replace

from app.naming.model.meta import NO_META, ServiceMeta
from app.naming.model.model import Instance, Publication, Service, ServiceView
from app.naming.registry.service_table import ServiceTable
from app.naming.registry.union import clusters_of, view_of
from distro.model.types import NO_VERSION

ONE, TWO, THREE = (Instance("10.1.0.1", port) for port in (1, 2, 3))


def publication(*instances: Instance, at_ms: int = 0) -> Publication:
    return Publication({one.key: one for one in instances}, True, at_ms, NO_VERSION)


def service_of(**publications: Publication) -> Service:
    service = Service("public", "G@@orders", 0)
    service.published = publications
    service.clusters = clusters_of(service)
    return service


def changed_view(service: Service) -> ServiceView:
    service.revision += 1
    return view_of(service)


def test_a_view_is_made_anew_only_after_a_change() -> None:
    for service in (service_of(), service_of(c=publication(ONE))):
        first = view_of(service)
        assert view_of(service) is first
        second = changed_view(service)
        assert second is not first
        assert second.revision == service.revision
        assert replace(second, revision=first.revision) == first


def test_a_view_has_the_description_and_the_clusters_by_name() -> None:
    service = service_of(c=publication(replace(ONE, cluster_name="B"), replace(TWO, cluster_name="A")))
    assert (view_of(service).clusters, view_of(service).meta) == (("A", "B"), NO_META)
    service.meta = ServiceMeta(0.5, {"a": "b"})
    view = changed_view(service)
    assert (view.protect_threshold, view.metadata) == (0.5, {"a": "b"})


def test_a_retained_instance_is_shown_until_somebody_publishes_its_address() -> None:
    service = service_of()
    service.retained = {ONE.key: ONE, TWO.key: TWO}
    assert view_of(service).instances == (ONE, TWO)
    registered = replace(ONE, weight=2.0)
    service.published = {"c": publication(registered)}
    assert changed_view(service).instances == (registered, TWO)


def test_an_address_of_two_clients_is_shown_once_and_counts_for_each() -> None:
    """It is the object that the later one registered, with the JSON that is kept with it."""
    earlier, later = replace(ONE, weight=1.0), replace(ONE, weight=2.0)
    table = ServiceTable(0)
    table.publish("public", "G@@orders", "a", publication(later, at_ms=2), 0)
    table.publish("public", "G@@orders", "b", publication(earlier, TWO, at_ms=1), 0)
    [service] = table.services()
    shown = {one.key: one for one in view_of(service).instances}
    assert shown.keys() == {ONE.key, TWO.key}
    assert shown[ONE.key] is later
    assert shown[TWO.key] is TWO
    assert service.published_count == 3


def test_an_address_is_healthy_if_one_of_its_clients_says_so() -> None:
    ill = replace(ONE, healthy=False)
    service = service_of(a=publication(ill, at_ms=2), b=publication(ONE, at_ms=1))
    assert view_of(service).instances == (ONE,)
    service.published = {"a": publication(ill, at_ms=2), "b": publication(ill, at_ms=1)}
    assert changed_view(service).instances == (ill,)
    service.published = {"a": publication(ill)}
    service.persistent = {THREE.key: THREE, ONE.key: replace(ONE, weight=3.0, healthy=False)}
    assert changed_view(service).instances == (THREE, replace(ONE, weight=3.0, healthy=False))
