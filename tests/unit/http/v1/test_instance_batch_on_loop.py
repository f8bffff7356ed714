"""Metadata of several instances, changed on the event loop: the answers are Flask's, and nothing long is done."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from app.commands.metadata_batch import LOOP_TARGETS_MAX
from tests.support.fake_node import FakeNode
from tests.support.loops import SkippingLoop, run_loop, until
from tests.support.served import served
from tests.support.wire import request

INSTANCE = "/nacos/v1/ns/instance"
BATCH = f"{INSTANCE}/metadata/batch"
NAMED = {"ip": "10.0.0.1", "port": 80}


def asked(method: str, values: dict[str, str], of: str = BATCH) -> bytes:
    return request(f"{of}?{urlencode({'serviceName': 's', **values})}", method)


def play(sent: list[bytes], *, hot: bool, instances: int = 2) -> tuple[list[tuple[int, Any]], list[Any], int]:
    """The answers to requests, the metadata they leave by address, and how many of them were answered by a thread."""
    found: list[tuple[int, Any]] = []
    left: list[Any] = []
    node = FakeNode()

    async def main(_: SkippingLoop) -> None:
        with served(node, hot=hot) as one:
            wire = one.connect()

            async def ask(data: bytes) -> tuple[int, bytes]:
                known = len(wire.replies())
                wire.send(data)
                await until(lambda: len(wire.replies()) > known)
                reply = wire.replies()[-1]
                return reply.status, reply.body

            for number in range(instances):
                values = {"ip": f"10.0.0.{number + 1}", "port": "80", "metadata": "a=1,b=2"}
                assert (await ask(asked("POST", values, INSTANCE)))[0] == 200
            before = node.http.pooled
            found.extend([await ask(one_sent) for one_sent in sent])
            pooled.append(node.http.pooled - before)
            _, listed = await ask(request(f"{INSTANCE}/list?serviceName=s"))
            left.extend((host["ip"], host["port"], host["metadata"]) for host in json.loads(listed)["hosts"])

    pooled: list[int] = []
    run_loop(main)
    return found, left, pooled[0]


CALLS = {
    "named": [asked("PUT", {"metadata": '{"a":"9"}', "instances": json.dumps([NAMED])})],
    "named twice": [asked("PUT", {"metadata": '{"a":"9"}', "instances": json.dumps([NAMED, NAMED])})],
    "one is unknown": [
        asked("PUT", {"metadata": "n=1", "instances": json.dumps([NAMED, {"ip": "10.9.9.9", "port": 1}])})
    ],
    "all of a kind": [asked("PUT", {"metadata": "c=3", "consistencyType": "ephemeral"})],
    "a kind that is none": [asked("PUT", {"metadata": "c=3", "consistencyType": "other"})],
    "taken out": [asked("DELETE", {"metadata": "a=1", "consistencyType": "ephemeral"})],
    "one without a port": [
        asked("POST", {"ip": "10.0.0.1", "port": "0", "metadata": "z=1"}, INSTANCE),
        asked("PUT", {"metadata": "n=1", "instances": json.dumps([NAMED])}),
    ],
    "no array": [asked("PUT", {"metadata": "n=1", "instances": "[{"})],
    "null": [asked("PUT", {"metadata": "null", "consistencyType": "ephemeral"})],
    "numbers": [asked("PUT", {"metadata": '{"a":1.50}', "consistencyType": "ephemeral"})],
    "no metadata": [asked("PUT", {"consistencyType": "ephemeral"})],
    "no service": [request(f"{BATCH}?metadata=a%3D1", "PUT")],
    "a group": [asked("PUT", {"groupName": "g", "metadata": "a=1", "consistencyType": "ephemeral"})],
    "too large": [asked("PUT", {"metadata": "a=" + "x" * 7_000, "consistencyType": "ephemeral"})] * 2,
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_the_loop_answers_and_changes_what_flask_does(calls: list[bytes]) -> None:
    on_loop, by_flask = play(calls, hot=True), play(calls, hot=False)
    assert on_loop[:2] == by_flask[:2]
    assert on_loop[2] == 0, "none needed a thread"


def test_many_instances_are_left_to_a_thread() -> None:
    few = [asked("PUT", {"metadata": "c=3", "consistencyType": "ephemeral"})]
    assert play(few, hot=True, instances=LOOP_TARGETS_MAX)[2] == 0
    assert play(few, hot=True, instances=LOOP_TARGETS_MAX + 1)[2] == 1
    names = json.dumps([{"ip": f"10.0.0.{number}", "port": 80} for number in range(LOOP_TARGETS_MAX + 1)])
    assert play([asked("PUT", {"metadata": "c=3", "instances": names})], hot=True)[2] == 1


def test_a_long_array_is_left_to_a_thread() -> None:
    assert play([asked("PUT", {"metadata": "c=3", "instances": "x" * 8_000})], hot=True)[2] == 0
    body = urlencode({"serviceName": "s", "metadata": "c=3", "instances": "x" * 9_000}).encode()
    form = request(BATCH, "PUT", body, "Content-Type: application/x-www-form-urlencoded")
    assert play([form], hot=True)[2] == 1


def test_a_durable_record_is_written_by_a_thread() -> None:
    sent = [
        asked("POST", {"ip": "10.0.0.9", "port": "80", "ephemeral": "false"}, INSTANCE),
        asked("PUT", {"metadata": "c=3", "consistencyType": "persist"}),
    ]
    answers, left, pooled = play(sent, hot=True)
    assert answers[1] == (200, b'{"updated":["10.0.0.9:80:unknown:DEFAULT:persist"]}')
    assert ("10.0.0.9", 80, {"c": "3"}) in left
    assert pooled == 2
