"""Beats of drained instances, which bring nothing back, and what makes them ordinary again."""

import pytest

from app.naming import drained
from app.naming.drained import KEPT_MS, DrainedInstances
from app.naming.registry.operations import Beat, DeregisterInstance, RegisterInstance
from tests.support.fake_node import FakeNode

SERVICE = "DEFAULT_GROUP@@orders"
LIGHT, FULL = Beat(SERVICE, "10.0.0.1", 8080), Beat(SERVICE, "10.0.0.1", 8080, full=True, weight=1.0)


def drained_key(node: FakeNode) -> tuple[str, str, str]:
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 8080))
    view = node.naming.service_view("public", SERVICE)
    assert view is not None
    return "public", SERVICE, view.instances[0].key


@pytest.mark.parametrize("beat", [LIGHT, FULL])
def test_a_beat_of_a_drained_instance_is_answered_and_brings_nothing_back(beat: Beat) -> None:
    node = FakeNode()
    key = drained_key(node)
    node.naming.deregister(DeregisterInstance(SERVICE, "10.0.0.1", 8080))
    assert node.naming.beat(LIGHT).known is False
    node.naming.drained.add(key, node.now_ms)
    assert node.naming.beat(beat).known is True
    assert node.naming.instance_count("public", SERVICE) == 0
    # For as long as it beats, and a while longer.
    node.now_ms += KEPT_MS
    assert node.naming.beat(beat).known is True
    node.now_ms += KEPT_MS + 1
    assert node.naming.beat(LIGHT).known is False


def test_a_registration_makes_it_an_ordinary_instance() -> None:
    node = FakeNode()
    key = drained_key(node)
    node.naming.drained.add(key, node.now_ms)
    node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 8080))
    assert not node.naming.drained.any


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drained, "DRAINED_MAX", 2)
    kept = DrainedInstances()
    for number in range(3):
        kept.add(("public", SERVICE, str(number)), 0)
    assert [kept.ignores(("public", SERVICE, str(number)), 0) for number in range(3)] == [False, True, True]


def test_an_instance_that_is_not_drained_may_be_forgotten() -> None:
    drained = DrainedInstances()
    drained.forget(("public", "G@@a", "10.0.0.1:80:unknown:DEFAULT"))
    assert not drained.any
