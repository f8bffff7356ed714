"""Queries that come again mean what the parser made of them the first time; some are parsed each time."""

import pytest

from app.http.api.parse_memo import MEMO_FULL_S, MEMO_QUERY_BYTES_MAX, ParseMemo
from app.http.input.forms import Parameters
from app.http.input.params import parse_register
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import RegisterInstance

QUERY = "serviceName=a&ip=10.0.0.1&port=80"


class Reading:
    """Reads queries with one memo, and counts those that the parser had to read."""

    def __init__(self, entries_max: int = 8) -> None:
        self.now_s = 0.0
        self.memo = ParseMemo(entries_max, lambda: self.now_s)
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
    assert reading.read(QUERY) is reading.read(QUERY)
    assert reading.read(QUERY) == whole(QUERY)
    assert reading.parsed == 1


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
    for _ in range(2):
        assert reading.read(query) == whole(query)
    assert reading.parsed == 2


def test_a_refusal_is_made_each_time() -> None:
    reading = Reading()
    for _ in range(2):
        with pytest.raises(InvalidParam, match="For input string"):
            reading.read(f"{QUERY}&weight=x")
    assert reading.parsed == 2


def test_a_full_memo_takes_no_more_for_a_while_and_then_begins_anew() -> None:
    reading = Reading(entries_max=2)
    queries = [f"{QUERY}&app={number}" for number in range(3)]
    for query in [*queries, *queries]:
        reading.read(query)
    assert reading.parsed == 4, "the third is parsed each time"
    reading.now_s = MEMO_FULL_S
    for query in [queries[2], queries[2], queries[0]]:
        reading.read(query)
    assert reading.parsed == 6
