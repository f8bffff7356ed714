"""Queries that come again mean what the parser made of them the first time; some are parsed each time."""

import pytest

from app.http.api.parse_memo import ENTRY_BYTES, MEMO_QUERY_BYTES_MAX, ParseMemo, as_kept
from app.http.input.forms import Parameters
from app.http.input.params import parse_deregister, parse_register
from app.machine.process.loop_parts import UNUSED_S
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import RegisterInstance
from tests.support.traced_memory import traced_rest

QUERY = "serviceName=a&ip=10.0.0.1&port=80"


class Reading:
    """Reads queries with one memo, and counts those that the parser had to read."""

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.now_s = 0.0
        self.memo = ParseMemo(bytes_max, 1_024, lambda: self.now_s)
        self.parsed = 0

    def read(self, query: str) -> RegisterInstance:
        def parameters() -> Parameters:
            self.parsed += 1
            return Parameters.of(query.encode(), "", b"", "POST")

        return self.memo.parse(parse_register, query.encode(), parameters)


def whole(query: str) -> RegisterInstance:
    return parse_register(Parameters.of(query.encode(), "", b"", "POST"))


def test_a_query_is_known_when_it_comes_again() -> None:
    reading = Reading()
    assert reading.read(QUERY) == reading.read(QUERY)
    assert reading.read(QUERY) is reading.read(QUERY)
    assert reading.read(QUERY) == whole(QUERY)
    assert reading.parsed == 2


def test_kept_commands_share_their_names() -> None:
    reading = Reading()
    queries = [f"serviceName=orders-of-all&namespaceId=blue&ip=10.0.0.{number}&port=80" for number in (1, 2)]
    first, second = [reading.read(query) for query in queries * 3][-2:]
    assert first.ip != second.ip
    assert (first.service is second.service, first.namespace is second.namespace) == (True, True)
    assert first == whole(queries[0])


def test_what_differs_is_parsed() -> None:
    reading = Reading()
    first, second = QUERY, QUERY.replace("10.0.0.1", "10.0.0.2")
    assert (reading.read(first).ip, reading.read(second).ip) == ("10.0.0.1", "10.0.0.2")
    assert reading.parsed == 2


@pytest.mark.parametrize(
    "query",
    [
        f"{QUERY}&x={'x' * MEMO_QUERY_BYTES_MAX}",
        f"{QUERY}&username=u&password=p",
        f"{QUERY}&metadata=%7B%22zone%22%3A%22a%22%7D",
        f"{QUERY}&metadata=a%3Db&metadata=a%3Dc",
    ],
    ids=["long", "with a password", "with metadata", "with metadata twice"],
)
def test_these_are_not_kept(query: str) -> None:
    reading = Reading()
    for _ in range(4):
        assert reading.read(query) == whole(query)
    assert reading.parsed == 4


def test_a_refusal_is_made_each_time() -> None:
    reading = Reading()
    for _ in range(2):
        with pytest.raises(InvalidParam, match="For input string"):
            reading.read(f"{QUERY}&weight=x")
    assert reading.parsed == 2


def test_the_same_query_is_another_command_for_another_parser() -> None:
    reading, parameters = Reading(), Parameters.of(QUERY.encode(), "", b"", "DELETE")
    for _ in range(3):
        assert reading.read(QUERY) == whole(QUERY)
        made = reading.memo.parse(parse_deregister, QUERY.encode(), lambda: parameters)
        assert made == parse_deregister(parameters)


def test_a_full_memo_takes_no_more_for_a_while_and_then_what_comes_in_place_of_what_does_not() -> None:
    reading = Reading(bytes_max=2 * ENTRY_BYTES)
    queries = [f"{QUERY}&app={number}" for number in range(3)]
    for query in [*queries, *queries, *queries]:
        reading.read(query)
    assert reading.parsed == 7, "the third is parsed each time"
    for _ in range(2):
        reading.now_s += UNUSED_S
        reading.read(queries[1])
        reading.read(queries[2])
    for query in [queries[2], queries[1], queries[0]]:
        reading.read(query)
    assert reading.parsed == 10


def test_the_reckoned_memory_is_about_that_which_commands_take() -> None:
    memo, count = ParseMemo(1 << 30), 500
    queries = [f"{QUERY}&namespaceId=public&app={number}".encode() for number in range(count)]
    for query in queries:
        as_kept(whole(query.decode()))  # what parsers keep themselves, and the texts that commands share
    with traced_rest() as rest:
        for query in [*queries, *queries]:
            memo.note(bytes(bytearray(query)), (parse_register, whole(query.decode())))
    assert len(memo) == count
    assert 0.9 < memo.bytes_held / rest() < 1.5
