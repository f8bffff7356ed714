"""JSON that is kept takes the memory of its bytes."""

import tracemalloc
from collections.abc import Callable, Iterator

import orjson
import pytest

from app.http.api.answers import json_array_reply, json_reply
from app.http.v2.envelope import result
from app.naming.model.json_fields import exact_json
from app.naming.model.model import SIMPLE_ID, Instance, ServiceView
from app.naming.wire.service_info import ListAnswers, Variant
from distro.model.types import NO_VERSION

COUNT = 200
SIZES = [1, 400, 5_000, 100_000]
OVERHEAD_BYTES = 200
"""Of an object of bytes, and of what refers to it."""


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()


@pytest.mark.parametrize("size", SIZES)
def test_the_json_is_that_of_orjson(size: int) -> None:
    value = {"a": "x" * size, "b": [1, None, "é"]}
    assert exact_json(value) == orjson.dumps(value)


@pytest.mark.parametrize("size", SIZES)
def test_the_json_takes_its_own_size(traced: Callable[[], int], size: int) -> None:
    value = {"a": "x" * size, "b": [1, None, "é"]}
    before = traced()
    made = exact_json(value)
    assert traced() - before < len(made) + OVERHEAD_BYTES


def test_the_hosts_of_a_list_are_kept_in_their_size(traced: Callable[[], int]) -> None:
    name = "DEFAULT_GROUP@@s"
    instances = tuple(Instance(f"10.0.0.{n}", 80, service_name=name, instance_id=SIMPLE_ID) for n in range(COUNT))
    view, lists = ServiceView("public", name, 1, NO_VERSION, instances, ("DEFAULT",)), ListAnswers()
    before = traced()
    answer = lists.get(view, Variant("", False, False, False, 3_000))
    # Each host is kept twice: in the list, and with its instance.
    assert traced() - before < 2 * answer.size + COUNT * OVERHEAD_BYTES + 20_000


@pytest.mark.parametrize("reply_of", [json_reply, result, lambda value: json_array_reply([value])])
def test_a_large_reply_takes_its_own_size(traced: Callable[[], int], reply_of: Callable[[object], object]) -> None:
    value = ["x" * 1_000 for _ in range(100)]
    reply_of(value)  # what is made once
    before = traced()
    reply = reply_of(value)
    assert traced() - before < 110_000
    assert reply is not None
