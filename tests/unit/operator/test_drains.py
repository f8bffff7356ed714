"""The job of an instance that leaves, and the part that a member takes in its steps."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from app.naming.clients.client_model import ClientInfo
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.override import Override
from app.naming.push.udp_subscribers import PushState
from app.naming.registry.operations import RegisterInstance
from app.operator import instance_drain
from app.operator.drain_steps import DISABLE, REMOVE
from app.operator.instance_drain import InstanceDrains
from app.operator.instance_facts import AskedInstance
from distro.timing.clock import SystemClock
from tests.support.fake_node import FakeNode

SERVICE = "DEFAULT_GROUP@@orders"
ASKED = AskedInstance("public", SERVICE, "10.0.0.1", 8080, "DEFAULT")
SECOND = 1_000
WAIT_S = 60.0

Seen = Mapping[str, Mapping[str, Any] | None]


def seen(*, known: bool = True, in_lists: bool = False, behind: int = 0) -> dict[str, Any]:
    return {"known": known, "inLists": in_lists, "subscribers": 2, "behind": behind}


class Members:
    """Answers the steps of a job, as the test has it, and keeps which were asked for."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.while_disabled: list[Seen] = [{"a": seen()}]
        self.after: Seen = {"a": seen(known=False)}
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, action: str, _asked: AskedInstance) -> Seen:
        assert self.gate.wait(WAIT_S)
        self.steps.append(action)
        if action == REMOVE:
            return self.after
        return self.while_disabled.pop(0) if len(self.while_disabled) > 1 else self.while_disabled[0]


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> Members:
    monkeypatch.setattr(instance_drain, "POLL_S", 0.001)
    return Members()


@pytest.fixture
def drains(members: Members) -> Any:
    made = InstanceDrains(SystemClock())
    yield made
    members.gate.set()
    made.stop()


class TestJob:
    def test_it_is_removed_when_nobody_is_behind(self, drains: InstanceDrains, members: Members) -> None:
        members.while_disabled = [{"a": seen(in_lists=True)}, {"a": seen(behind=1)}, {"a": seen(), "b": None}]
        job = drains.begin(ASKED, 0, 30 * SECOND, members)
        assert job is not None
        assert job.wait(WAIT_S)
        assert job.told()["state"] == "drained"
        assert members.steps == [DISABLE] * 4 + [REMOVE], "two looks in a row must find nobody behind"

    def test_it_is_removed_in_time_though_somebody_is_behind(self, drains: InstanceDrains, members: Members) -> None:
        members.while_disabled = [{"a": seen(behind=1)}]
        job = drains.begin(ASKED, 0, 20, members)
        assert job is not None
        assert job.wait(WAIT_S)
        assert job.told()["state"] == "drained, not all acknowledged in time"

    def test_one_that_nobody_has_needs_nothing(self, drains: InstanceDrains, members: Members) -> None:
        members.while_disabled = [{"a": seen(known=False), "b": None}]
        job = drains.begin(ASKED, 0, SECOND, members)
        assert job is not None
        assert job.wait(WAIT_S)
        assert (job.told()["state"], job.told()["notAnswered"]) == ("absent", ["b"])
        assert members.steps == [DISABLE]

    def test_one_that_stays_is_told(
        self, drains: InstanceDrains, members: Members, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(instance_drain, "REMOVE_MS_MAX", 10)
        members.after = {"a": seen(known=True)}
        job = drains.begin(ASKED, 0, SECOND, members)
        assert job is not None
        assert job.wait(WAIT_S)
        assert job.told()["state"] == "not removed everywhere"

    def test_calls_join_while_it_runs_and_begin_anew_after_it(self, drains: InstanceDrains, members: Members) -> None:
        members.gate.clear()
        job = drains.begin(ASKED, 0, SECOND, members)
        assert job is not None
        assert drains.begin(ASKED, 0, SECOND, members) is job
        assert drains.find(ASKED) is job
        members.gate.set()
        assert job.wait(WAIT_S)
        assert drains.begin(ASKED, 0, SECOND, members) is not job

    def test_too_many_are_refused(
        self, drains: InstanceDrains, members: Members, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(instance_drain, "JOBS_MAX", 1)
        members.gate.clear()
        assert drains.begin(ASKED, 0, SECOND, members) is not None
        assert drains.begin(AskedInstance("public", SERVICE, "10.0.0.2", 8080, "DEFAULT"), 0, SECOND, members) is None

    def test_a_node_that_stops_ends_it(self, drains: InstanceDrains, members: Members) -> None:
        members.while_disabled = [{"a": seen(behind=1)}]
        job = drains.begin(ASKED, 0, 60 * SECOND, members)
        assert job is not None
        drains.stop()
        assert job.is_over or job.wait(WAIT_S)
        assert REMOVE not in members.steps
        assert drains.begin(ASKED, 0, SECOND, members) is None


class TestSteps:
    def test_a_listed_instance_at_its_owner(self) -> None:
        node = FakeNode()
        node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 8080))
        first = node.drain_steps.take(DISABLE, ASKED)
        assert (first["known"], first["inLists"]) == (True, False)
        count = len(node.events)
        node.drain_steps.take(DISABLE, ASKED)
        assert len(node.events) == count, "a repeated step changes nothing"
        assert node.drain_steps.take(REMOVE, ASKED)["known"] is False
        assert node.naming.drained.any

    def test_a_copy_is_left_to_its_owner(self) -> None:
        node = FakeNode()
        node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 8080))
        node.cluster.give_to("127.0.0.2:8848")
        assert node.drain_steps.take(DISABLE, ASKED)["inLists"] is True
        assert node.drain_steps.take(REMOVE, ASKED)["known"] is True

    def test_a_persistent_instance(self) -> None:
        node = FakeNode()
        node.durable.register(RegisterInstance(SERVICE, "10.0.0.1", 8080, ephemeral=False))
        assert node.drain_steps.take(DISABLE, ASKED)["inLists"] is False
        assert node.drain_steps.take(REMOVE, ASKED)["known"] is False

    def test_an_instance_that_an_operator_enabled(self) -> None:
        node = FakeNode()
        node.naming.register(RegisterInstance(SERVICE, "10.0.0.1", 8080))
        node.durable.overrides.replace("public", SERVICE, ASKED.key, Override(2.0, True))
        assert node.drain_steps.take(DISABLE, ASKED)["inLists"] is False
        assert node.durable.overrides.find("public", SERVICE, ASKED.key) == Override(2.0)
        node.durable.overrides.replace("public", SERVICE, ASKED.key, Override(2.0, True))
        node.cluster.give_to("127.0.0.2:8848")
        assert node.drain_steps.take(DISABLE, ASKED)["inLists"] is True, "the owner disables it"

    def test_a_publication_alone_and_one_of_a_batch(self) -> None:
        node = FakeNode()
        other = RegisterInstance(SERVICE, "10.0.0.2", 8080)
        mine = RegisterInstance(SERVICE, "10.0.0.1", 8080, metadata={"zone": "a"})
        for name in ("one", "many"):
            node.clients.own.connect(ClientInfo(name, "10.0.0.1", 5, "-", "Nacos-Java-Client:v2"))
        node.clients.own.register("one", mine)
        node.clients.own.batch_register("many", "public", SERVICE, [mine, other])
        assert node.drain_steps.take(DISABLE, ASKED)["inLists"] is False
        assert node.drain_steps.take(REMOVE, ASKED)["known"] is False
        view = node.naming.service_view("public", SERVICE)
        assert view is not None
        assert [(one.ip, one.enabled) for one in view.instances] == [("10.0.0.2", True)]
        assert node.clients.table.client("one").published == {}  # type: ignore[union-attr]

    def test_subscribers_that_are_behind_are_counted(self) -> None:
        node = FakeNode()
        states = [PushState("a", "", 5, None, 1, True), PushState("b", "", 5, 4, 0, False)]
        node.drain_steps.push_states.append(("udp", lambda _namespace, _service: states))
        assert node.drain_steps.take(DISABLE, ASKED) == {
            "known": False,
            "inLists": False,
            "subscribers": 2,
            "behind": 1,
        }

    def test_there_is_no_other_step(self) -> None:
        with pytest.raises(InvalidParam, match="Parameter 'action' is illegal"):
            FakeNode().drain_steps.take("shoot", ASKED)
