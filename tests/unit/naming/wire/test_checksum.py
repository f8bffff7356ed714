"""Checksums as real Nacos computes them: one was sent by a running member, the others follow its rules by hand."""

import hashlib

import pytest

from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.checksum import checksum, instance_list_checksum, instance_text, java_double, metadata_text
from distro.model.types import NO_VERSION

CHINESE = {"b": "1", "a": "你"}
PAIR = [Instance("10.1.1.1", 80, metadata=CHINESE), Instance("10.1.1.2", 80, metadata=CHINESE)]
MIXED = [
    Instance("10.0.0.9", 8080, "c1", weight=2.5, healthy=False),
    Instance("10.0.0.10", 8080, weight=100.0, enabled=False, metadata={"k": None}),
]


@pytest.mark.parametrize(
    ("instances", "md5"),
    [
        ([], "d41d8cd98f00b204e9800998ecf8427e"),
        (PAIR, "bc76803ed0f9e42fa964187d681c6235"),  # what a Nacos 1.4.8 sent
        (MIXED, "acf22c5effb4ebdb0e9068144b0941eb"),
    ],
)
def test_recorded_values(instances: list[Instance], md5: str) -> None:
    assert instance_list_checksum(instances) == md5
    assert instance_list_checksum(reversed(instances)) == md5, "the order of registration does not count"


def test_the_text_below_the_digest() -> None:
    text = "10.0.0.10:8080_100.0_true_false_DEFAULT_k:null,,10.0.0.9:8080_2.5_false_true_c1_,"
    assert instance_list_checksum(MIXED) == hashlib.md5(text.encode()).hexdigest()


def test_what_takes_no_part() -> None:
    one = Instance("10.0.0.1", 80)
    other = Instance("10.0.0.1", 80, service_name="g@@s", app="x", instance_id="7", marked=True, ephemeral=False)
    assert instance_list_checksum([one]) == instance_list_checksum([other])


def test_instances_are_sorted_by_their_text_and_by_utf16_units() -> None:
    assert instance_text(Instance("a", 0, "c")) == "a:unknown:c_1.0_true_false_c"
    first, second = Instance("😀", 1), Instance("\uffee", 1)  # D83D comes before FFEE, though its code point is higher
    text = "😀:1_1.0_true_true_DEFAULT_,\uffee:1_1.0_true_true_DEFAULT_,"
    assert instance_list_checksum([second, first]) == hashlib.md5(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("weight", "text"),
    [(0.0, "0.0"), (0.01, "0.01"), (1, "1.0"), (2.5, "2.5"), (100.0, "100.0"), (10_000.0, "10000.0")],
)
def test_weights_are_printed_as_by_java(weight: float, text: str) -> None:
    assert java_double(weight) == text


def test_a_text_with_half_a_character_has_a_digest_too() -> None:
    """To Java it is a text, sorted as any other unit."""
    half = "\ud83d"
    assert metadata_text({"\uffee": "2", half: "1"}) == f"{half}:1,\uffee:2,"
    text = f"10.0.0.1:80_1.0_true_true_DEFAULT_{half}:1,,"
    found = instance_list_checksum([Instance("10.0.0.1", 80, metadata={half: "1"})])
    assert found == hashlib.md5(text.encode("utf-8", "surrogatepass")).hexdigest()


def test_metadata_is_sorted_by_utf16_units() -> None:
    assert metadata_text({"\uffee": "2", "\U0001f600": "1"}) == "\U0001f600:1,\uffee:2,"


def test_the_digest_of_a_service_counts_its_clusters_and_instances() -> None:
    ones = (Instance("10.0.0.2", 80, "c2", weight=2.0), Instance("10.0.0.1", 80, "c1", healthy=False))
    view = ServiceView("public", "G@@orders", 1, NO_VERSION, ones, ("c1", "c2"), ServiceMeta(0.5))
    first, second = (
        '{"healthChecker":{},"defIPPort":80,"defCkport":80,"name":"' + name + '","useIPPort4Check":true,"sitegroup":""}'
        for name in ("c1", "c2")
    )
    text = (
        '{"invalidIPCount":1,"name":"G@@orders","ipCount":2,"owners":[],"protectThreshold":0.5,'
        f'"clusters":[{first},{second}]}}10.0.0.1:80_1.0_false_c1,10.0.0.2:80_2.0_true_c2,'
    )
    assert checksum(view) == hashlib.md5(text.encode()).hexdigest()


def test_metadata_is_sorted_and_ends_in_a_comma() -> None:
    assert metadata_text({"b": "1", "a": "2", "c": None}) == "a:2,b:1,c:null,"
    assert metadata_text({}) == metadata_text(None) == ""
