"""The instance that comes of each command, attribute by attribute."""

import math
from dataclasses import replace
from typing import Any

import pytest

from app.naming.model.id_allocator import IdAllocator
from app.naming.model.keys import SIMPLE_ID
from app.naming.model.model import PRESERVED_ID_GENERATOR, WEIGHT_MAX, WEIGHT_POSITIVE_MIN, Instance
from app.naming.model.nacos_errors import InstanceMissing, WeightRefused
from app.naming.registry import operations
from app.naming.registry.operations import Beat, ChangeMetadata, PatchInstance, RegisterInstance, Shared

NAME, IP = "G@@orders", "10.0.0.1"
NUMBERED = {PRESERVED_ID_GENERATOR: "SnowFlake"}
OTHER = {
    "weight": 2.0,
    "enabled": False,
    "ephemeral": False,
    "app": "shop",
    "metadata": {"zone": "a"},
}
"""An attribute of a registration that is not its default."""


def registration(**fields: Any) -> RegisterInstance:
    return RegisterInstance(**{"service": NAME, "ip": IP, "port": 80} | fields)


def registered(old: Instance | None = None, **fields: Any) -> Instance:
    return operations.register(old, registration(**fields), (), Shared())


@pytest.mark.parametrize(
    ("weight", "kept"),
    [
        (0.0, 0.0),
        (-0.0, 0.0),
        (WEIGHT_POSITIVE_MIN / 2, WEIGHT_POSITIVE_MIN),
        (WEIGHT_POSITIVE_MIN, WEIGHT_POSITIVE_MIN),
        (0.5, 0.5),
        (WEIGHT_MAX, WEIGHT_MAX),
    ],
)
def test_weights_in_range(weight: float, kept: float) -> None:
    for read in (operations.check_weight, operations.clamp_weight):
        assert (read(weight), math.copysign(1, read(weight))) == (kept, 1.0)


@pytest.mark.parametrize(("weight", "clamped"), [(math.nan, 1.0), (WEIGHT_MAX + 1, WEIGHT_MAX), (-1.0, 0.0)])
def test_weights_out_of_range(weight: float, clamped: float) -> None:
    assert operations.clamp_weight(weight) == clamped
    with pytest.raises(WeightRefused):
        operations.check_weight(weight)


def test_a_new_instance_has_all_that_its_registration_says() -> None:
    assert registered(cluster="C", healthy=False, **OTHER) == Instance(
        IP,
        80,
        cluster_name="C",
        service_name=NAME,
        healthy=False,
        instance_id="10.0.0.1#80#C#G@@orders",
        **OTHER,
    )
    assert registered().metadata == {}


def test_a_registration_again_leaves_health_and_id() -> None:
    old = replace(registered(), healthy=False, instance_id="own")
    again = registered(old, **OTHER)
    assert again == replace(old, **OTHER)


@pytest.mark.parametrize("name", OTHER)
def test_a_registration_with_another_attribute_changes_something(name: str) -> None:
    old, is_repetition = registered(), operations.is_repetition
    assert is_repetition(old, registration())
    assert is_repetition(replace(old, healthy=False), registration()), "health is not asked for"
    assert not is_repetition(old, registration(**{name: OTHER[name]}))
    assert not is_repetition(replace(old, marked=True), registration())
    assert not is_repetition(replace(old, service_name="H@@orders"), registration())


def test_other_metadata_leave_all_else_as_it_was() -> None:
    old = replace(registered(), healthy=False, instance_id="own")
    assert registered(old, metadata={"zone": "z"}) == replace(old, metadata={"zone": "z"})


def test_numbers_are_the_lowest_free_ones() -> None:
    command = registration(metadata=NUMBERED)
    assert operations.is_numbered(NUMBERED)
    assert not operations.is_numbered({PRESERVED_ID_GENERATOR: "uuid"})
    assert not operations.is_numbered({})
    assert not operations.is_numbered(None)
    for ids in (["0", "2"], IdAllocator(["0", "2"])):
        assert operations.make_instance_id(command, NUMBERED, ids) == "1"
    assert operations.make_instance_id(command, {}, ["0"]) is SIMPLE_ID


PATCHED = {"metadata": {"b": "2"}, "app": "x", "weight": 0.5, "healthy": False, "enabled": False}


@pytest.mark.parametrize("name", [None, *PATCHED])
def test_a_patch_changes_what_it_names_alone(name: str | None) -> None:
    old = registered(**OTHER | {"enabled": True})
    changed = {name: PATCHED[name]} if name else {}
    assert operations.patch(old, PatchInstance(NAME, IP, 80, **changed)) == replace(old, **changed)
    opposite = replace(old, healthy=False, enabled=False)
    assert operations.patch(opposite, PatchInstance(NAME, IP, 80, healthy=True, enabled=True)) == old


def test_a_patch_with_a_weight_out_of_range_is_refused() -> None:
    with pytest.raises(WeightRefused):
        operations.patch(registered(), PatchInstance(NAME, IP, 80, weight=-1.0))


def test_metadata_is_changed_key_by_key() -> None:
    change = ChangeMetadata({"b": "2", "c": "3"}, frozenset({"a", "c", "x"}))
    assert operations.change_metadata(registered(metadata={"a": "1", "b": "1", "d": "4"}), change).metadata == {
        "b": "2",
        "d": "4",
    }
    assert operations.change_metadata(replace(registered(), metadata=None), change).metadata == {"b": "2"}


def test_only_a_known_instance_may_be_updated() -> None:
    known = [registered(port=81), registered()]
    operations.check_known(known, registration(cluster="another"))
    for fields in ({"ip": "10.0.0.2"}, {"port": 82}, {"ephemeral": False}):
        with pytest.raises(InstanceMissing, match="instance not exist"):
            operations.check_known(known, registration(**fields))
    with pytest.raises(InstanceMissing, match="service not found, namespace: public, service: G@@orders"):
        operations.check_known(None, registration())
    wanted = registration(weight=2.0, healthy=False, cluster="C")
    with pytest.raises(InstanceMissing, match=r"^instance not exist: 10.0.0.1:80:unknown:C_2.0_false_false_C$"):
        operations.check_known([], wanted)


def test_a_full_beat_describes_an_instance() -> None:
    beat = Beat(NAME, IP, 80, cluster="C", full=True, weight=0.001, metadata={"a": "b"}, ephemeral=False)
    assert operations.instance_from_beat(beat, (), Shared()) == Instance(
        IP,
        80,
        cluster_name="C",
        service_name=NAME,
        weight=WEIGHT_POSITIVE_MIN,
        ephemeral=False,
        metadata={"a": "b"},
        instance_id="10.0.0.1#80#C#G@@orders",
    )
    bare = operations.instance_from_beat(Beat(NAME, IP, 80, full=True), (), Shared())
    assert (bare.weight, bare.metadata) == (0.0, None)
    numbered = Beat(NAME, IP, 80, full=True, metadata=NUMBERED)
    assert operations.instance_from_beat(numbered, ["0"], Shared()).instance_id == "1"


def test_the_id_of_an_instance_without_a_service_name_stays() -> None:
    """As real Nacos may send one: the id that it had there is not made anew from the name of the service."""
    nameless = Instance(IP, 80, instance_id=SIMPLE_ID)
    assert nameless.instance_id == "10.0.0.1#80#DEFAULT#"
    again = operations.register(nameless, registration(), (), Shared())
    assert (again.service_name, again.instance_id) == (NAME, "10.0.0.1#80#DEFAULT#")
    assert operations.register(again, registration(), (), Shared()).instance_id == "10.0.0.1#80#DEFAULT#"
    named = registered()
    assert operations.register(named, registration(weight=2.0), (), Shared()).instance_id == named.instance_id
