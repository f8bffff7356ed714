"""The texts of a service in which a search looks first: what they contain, and which services have none."""

import pytest

from app.naming.model.model import Instance, ServiceView
from app.operator.search_texts import INSTANCES_MAX, TEXT_CHARS_MAX, SearchTexts, texts_of
from distro.model.types import NO_VERSION


def view_of_instances(*instances: Instance) -> ServiceView:
    return ServiceView("public", "g@@orders", 1, NO_VERSION, instances, ("DEFAULT",))


def test_the_texts_have_each_address_port_and_different_metadata_once() -> None:
    zone = {"zone": "East"}
    instances = [Instance("10.0.0.1", 80, metadata=zone), Instance("Db.example", 80, metadata=dict(zone))]
    view = view_of_instances(*instances, Instance("10.0.0.2", 80, metadata=None))
    texts = texts_of(view)
    assert texts == SearchTexts("\n10.0.0.1\ndb.example\n10.0.0.2\n\t80\n", '[{"zone":"east"},null]')
    assert texts_of(view) is texts, "made once"


@pytest.mark.parametrize(
    "instances",
    [
        [Instance("10.0.0.1", port) for port in range(INSTANCES_MAX + 1)],
        [Instance("10.0.0.1", 80, metadata={"x": "y" * TEXT_CHARS_MAX})],
        [Instance("10.0.0.1", 80, metadata={"x": "\ud800"})],
    ],
)
def test_many_instances_large_and_broken_metadata_have_none(instances: list[Instance]) -> None:
    view = view_of_instances(*instances)
    assert texts_of(view) is None
    assert texts_of(view) is None


def test_a_service_without_instances_has_texts_that_contain_nothing() -> None:
    assert texts_of(view_of_instances()) == SearchTexts("\n", "[]")
