"""The search for instances, which looks through many at a time, against the condition of each."""

from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from app.naming.model.model import Instance
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from app.operator import instance_search
from app.operator.instance_search import SERVICES_SHOWN, SearchRequest, SearchResult, search
from tests.support.registry_parts import naming_of

SERVICES = ["g@@east", "g@@orders", "g@@west"]
METADATA = st.dictionaries(st.sampled_from(["zone", "ip"]), st.sampled_from(["east", "WEST", "10.0", ""]), max_size=2)
PLACES = st.tuples(
    st.sampled_from(["dev", "public"]),
    st.sampled_from(SERVICES),
    st.sampled_from(["10.0.0.1", "10.0.0.2", "10.1.0.1", "East.example"]),
    st.sampled_from([10, 80, 8_080]),
    METADATA,
)
TEXTS = ["10.", "10.0", "10", "80", "8080", "east", "st", "zone", "e", "east.", "nowhere"]
TEXTS += ["10.0.0.1", "10.0.0.1:80", "10.0.0.1:8", "zone=", "zone=WEST", "zone=west", "ip=10.0", "one=", "10.0.0.2x"]


def is_wanted(one: Instance, text: str) -> bool:
    """Return whether a text finds an instance."""
    metadata = one.metadata or {}
    key, sign, value = text.partition("=")
    if sign:
        return metadata.get(key) == value if value else key in metadata
    if text.startswith("10.0.0.1"):
        return text in (one.ip, f"{one.ip}:{one.port}")
    parts = [part.lower() for pair in metadata.items() for part in pair if part]
    return one.ip.lower().startswith(text) or text == str(one.port) or any(text in part for part in parts)


NEAR_AND_ALIKE = [("dev", "g@@west", "10.0.0.1", 80, {}), ("dev", "g@@west", "10.1.0.1", 80, {"zone": "10.0"})]
"""A text finds the first by its address, and the second by its metadata."""


@given(st.lists(PLACES, max_size=15), st.sampled_from(TEXTS), st.integers(1, 4), st.integers(1, 16))
@example(NEAR_AND_ALIKE, "10.0", 4, 16)
@example([*NEAR_AND_ALIKE, ("dev", "g@@west", "10.0.0.2", 80, {"zone": "east"})], "east", 4, 16)
def test_a_text_finds_what_a_look_at_each_instance_finds(
    places: list[tuple[str, str, str, int, dict[str, str]]], text: str, part_max: int, found_max: int
) -> None:
    registry = Registry.of("10.0.0.1:8848~1")
    naming = naming_of(registry, lambda: 0, lambda _: None)
    limits = {"PART_INSTANCES": part_max, "FOUND_MAX": found_max, "REST_INSTANCES": 3}
    with patch.multiple(instance_search, rest=lambda: None, **limits):
        for namespace, service, ip, port, metadata in places:
            naming.register(RegisterInstance(service, ip, port, namespace=namespace, metadata=metadata))
            check(naming, text, search(naming, SearchRequest(text), lambda _namespace, _name: True), found_max)


def check(naming: NamingService, text: str, result: SearchResult, found_max: int) -> None:
    named, wanted = [], []
    for namespace in naming.namespaces():
        for name in naming.list_services(namespace, None):
            view = naming.service_view(namespace, name)
            assert view is not None
            named += [(namespace, name)] if text in name else []
            wanted += [(namespace, name, one) for one in view.instances if is_wanted(one, text)]
    found = [(view.namespace, view.full_name, one) for view, instances in result.found for one in instances]
    assert found == wanted[:found_max]
    assert (result.count, result.complete) == (len(found), len(wanted) <= found_max)
    if "=" not in text and not text.startswith("10.0.0.1"):
        assert [(view.namespace, view.full_name) for view in result.services] == named[:SERVICES_SHOWN]
        assert result.service_count == len(named)
