"""What clients are shown of a service: chosen, protected, timed, and kept while it stays."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import orjson
import pytest

from app.machine.limits.answer_budget import AnswerBudget
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.naming.model.nacos_errors import TooManyRequests
from app.naming.registry.operations import RegisterInstance
from app.naming.wire.rendered import SERVICE_PART
from app.peers import payload as wire
from app.rpc.sdk import service_messages
from app.rpc.sdk.service_messages import KEPT_BYTES_MAX, InfoVariant, ServiceInfo, ServiceInfos, TooLarge
from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.traced_memory import traced_peak

KEY = (DEFAULT_NAMESPACE, "G@@a")


class Infos:
    """A domain, and what is shown of it by a clock that the test moves."""

    def __init__(self, bytes_max: int = 1 << 20, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self.fake_node = FakeNode()
        self.wall_ms = 1_000
        self.answers = AnswerBudget()
        numbers = count(1)
        self.shown = ServiceInfos(
            self.fake_node.naming,
            lambda: 10_000,
            lambda: self.wall_ms,
            lambda: str(next(numbers)),
            bytes_max,
            kept_bytes_max,
            self.answers,
        )

    def register(self, port: int, **more: Any) -> None:
        self.fake_node.naming.register(RegisterInstance("G@@a", "10.0.0.1", port, **more))

    def get(self, variant: InfoVariant = InfoVariant()) -> ServiceInfo:  # noqa: B008  (a value)
        return asyncio.run(self.shown.get(KEY, variant))

    def info(self, variant: InfoVariant = InfoVariant()) -> dict[str, Any]:  # noqa: B008
        shown: dict[str, Any] = orjson.loads(self.get(variant).json(self.shown.now_ms(), variant.clusters))
        return shown


def test_an_unknown_service_is_whole_but_for_its_hosts() -> None:
    assert Infos().info(InfoVariant("A,B")) == {
        "name": "a",
        "groupName": "G",
        "clusters": "A,B",
        "cacheMillis": 10_000,
        "lastRefTime": 1_000,
        "checksum": "",
        "allIPs": False,
        "reachProtectionThreshold": False,
        "valid": True,
        "hosts": [],
    }


def test_a_host_has_all_that_sdks_read_and_no_null() -> None:
    infos = Infos()
    infos.register(80, weight=2.0, metadata={"preserved.heart.beat.timeout": "9000", "x": None, "y": "z"})
    [host] = infos.info()["hosts"]
    assert host == {
        "instanceId": "10.0.0.1#80#DEFAULT#G@@a",
        "ip": "10.0.0.1",
        "port": 80,
        "weight": 2.0,
        "healthy": True,
        "enabled": True,
        "ephemeral": True,
        "clusterName": "DEFAULT",
        "serviceName": "G@@a",
        "metadata": {"preserved.heart.beat.timeout": "9000", "y": "z"},
        "instanceHeartBeatInterval": 5_000,
        "instanceHeartBeatTimeOut": 9_000,
        "ipDeleteTimeout": 30_000,
    }
    infos.register(81)
    assert infos.info()["hosts"][1]["instanceIdGenerator"] == "simple"
    assert b'"weight":2.0' in infos.get().json(1)


def test_a_later_state_has_a_later_time_whatever_the_clock_does() -> None:
    infos = Infos()
    times = []
    for wall_ms in (1_000, 1_000, 5_000, 2_000):
        infos.wall_ms = wall_ms
        infos.register(80 + len(times))
        times.append(infos.info()["lastRefTime"])
    assert times == sorted(set(times))
    infos.wall_ms = 9_000
    assert infos.info()["lastRefTime"] == 9_000


def test_what_has_not_changed_is_made_once() -> None:
    infos = Infos()
    infos.register(80)
    first = infos.get()
    assert infos.get() is first
    assert infos.get(InfoVariant(healthy_only=True)) is not first
    infos.register(81)
    assert infos.get() is not first
    assert infos.get().request_id != first.request_id


def test_the_kept_answers_have_a_bound() -> None:
    other = Infos()
    other.register(80)
    infos = Infos(kept_bytes_max=30 * len(other.get()))
    for number in range(10):
        infos.register(80 + number, cluster=f"C{number}")
    first = infos.get()
    for number in range(10):
        infos.get(InfoVariant(f"C{number}"))
    assert infos.shown._infos.kept_bytes <= 30 * len(other.get()) // SERVICE_PART
    assert infos.get() is not first


def test_clusters_that_the_service_does_not_have_make_no_other_list() -> None:
    infos = Infos()
    for cluster in ("A", "B", "C"):
        infos.register(80, cluster=cluster)
    first = infos.get(InfoVariant("A,B"))
    for clusters in ("B,A", "A,A,B", "NONE,B,A", ",A,,B,"):
        assert infos.get(InfoVariant(clusters)) is first
        assert infos.info(InfoVariant(clusters))["clusters"] == clusters
    assert infos.get(InfoVariant("C,B,A")) is infos.get()
    assert infos.get(InfoVariant("NONE")) is infos.get(InfoVariant("x" * 2_000)) is not infos.get()
    assert infos.info(InfoVariant("NONE"))["hosts"] == []


def test_those_who_ask_at_once_for_unknown_clusters_wait_for_one_list() -> None:
    infos = Infos()
    for port in range(1, 200):
        infos.register(port)

    async def main() -> set[int]:
        asked = [infos.shown.get(KEY, InfoVariant(f"none-{number},DEFAULT")) for number in range(20)]
        return {id(one) for one in await asyncio.gather(*asked)}

    assert len(asyncio.run(main())) == 1


def test_the_content_is_that_of_the_instances_whatever_their_order() -> None:
    one, other = Infos(), Infos()
    one.register(80)
    alone = one.get()
    one.register(81)
    for port in (81, 80):
        other.register(port)
    assert one.get().content("") == other.get().content("") != alone.content("")
    assert one.get().content("DEFAULT") != one.get().content(""), "it shows the clusters that were asked for"
    assert one.get(InfoVariant("NONE")).content("NONE") != Infos().get().content("")


def test_the_push_names_a_request_and_is_shared_for_a_moment() -> None:
    infos = Infos()
    infos.register(80)
    info, infos.wall_ms = infos.get(), 2_000

    async def main(_loop: SkippingLoop) -> None:
        first = infos.shown.push(info, "")
        message = wire.decode(first)
        assert message.type == "NotifySubscriberRequest"
        assert message.json().keys() == {"headers", "requestId", "serviceInfo", "module"}
        assert (message.json()["headers"], message.json()["module"]) == ({}, "naming")
        assert message.json()["requestId"] == info.request_id
        assert message.json()["serviceInfo"]["lastRefTime"] == 2_000
        infos.wall_ms = 3_000
        assert infos.shown.push(info, "") is first
        assert wire.decode(infos.shown.push(info, "DEFAULT")).json()["serviceInfo"]["clusters"] == "DEFAULT"
        await until(lambda: infos.shown.push(info, "") is not first)
        assert wire.decode(infos.shown.push(info, "")).json()["serviceInfo"]["lastRefTime"] == 3_000

    run_loop(main)


def test_a_large_message_is_counted_once_while_anybody_has_it_and_refused_without_room() -> None:
    infos = Infos()
    for port in range(1, 1_000):
        infos.register(port)
    info, answers = infos.get(), infos.answers

    async def main(_loop: SkippingLoop) -> None:
        query = ("QueryServiceResponse", b'{"serviceInfo":', "")
        held = [infos.shown.answer(info, *query) for _ in range(100)]
        assert answers.count == len(held[0]) > 200_000
        answers.add_always(answers.large_max)
        with pytest.raises(TooManyRequests, match=r"rollcall\.limit\.answersMb=48"):
            infos.shown.push(info, "")
        answers.give_back(answers.large_max)
        await until(lambda: not infos.shown._shared)
        assert answers.count == len(held[0])
        held.clear()
        assert answers.count == 0

    run_loop(main)


def test_a_large_message_is_copied_twice_at_most_while_it_is_made() -> None:
    infos = Infos()
    for port in range(1, 1_000):
        infos.register(port)
    info = infos.get()

    async def main(_loop: SkippingLoop) -> None:
        infos.shown.push(info, "DEFAULT")  # what is made once
        with traced_peak() as peak_bytes:
            infos.shown.push(info, "")
        assert peak_bytes() < 2.1 * info.size
        infos.answers.add_always(infos.answers.large_max - info.size * 3 // 2)
        with pytest.raises(TooManyRequests):  # there is room for it, and none for both
            infos.shown.push(info, "OTHER")

    run_loop(main)


def test_the_instances_of_a_list_take_their_size_while_it_is_made() -> None:
    infos = Infos()
    for port in range(1, 1_000):
        infos.register(port)
    infos.get()
    infos.register(1_000)
    with traced_peak() as peak_bytes:
        info = infos.get()
    # The text of each instance with the object that holds it, and the whole.
    assert peak_bytes() < 2.5 * info.size


def test_a_list_has_room_while_it_is_made_or_is_not_made() -> None:
    infos = Infos()
    for port in range(1, 1_000):
        infos.register(port)
    infos.answers.add_always(infos.answers.large_max)
    with pytest.raises(TooManyRequests):
        infos.get()
    infos.answers.give_back(infos.answers.large_max)
    infos.get()
    assert infos.answers.count == 0


def test_what_no_message_can_hold_is_refused() -> None:
    infos = Infos(bytes_max=1_000)
    for port in range(1, 10):
        infos.register(port)
    with pytest.raises(TooLarge):
        infos.get()
    assert infos.info(InfoVariant("NONE"))["hosts"] == []


def test_many_who_ask_at_once_wait_for_one_answer_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_messages, "SLICE_S", 0.0)
    infos = Infos()
    for port in range(1, 500):
        infos.register(port)
    turns = 0

    async def main() -> list[ServiceInfo]:
        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(turn())
        request: list[Awaitable[ServiceInfo]] = [infos.shown.get(KEY, InfoVariant()) for _ in range(10)]
        answers = await asyncio.gather(*request)
        others.cancel()
        return answers

    answers = asyncio.run(main())
    assert len({id(one) for one in answers}) == 1
    assert turns > 20


def test_what_changed_while_it_was_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_messages, "SLICE_S", 0.0)
    infos = Infos()
    for port in range(1, 200):
        infos.register(port)

    async def main(meanwhile: Callable[[], None]) -> ServiceInfo:
        making = asyncio.create_task(infos.shown.get(KEY, InfoVariant()))
        await asyncio.sleep(0)
        meanwhile()
        waiting = infos.shown.get(KEY, InfoVariant())
        await making
        return await waiting

    shown = asyncio.run(main(lambda: infos.register(200)))
    assert len(orjson.loads(shown.json(1))["hosts"]) == 200
