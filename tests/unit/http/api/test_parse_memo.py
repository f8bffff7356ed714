"""Writes that come again but for their metadata are read from what is known, and mean what the parser makes of them."""

from urllib.parse import quote

import pytest

from app.http.api.parse_memo import MEMO_QUERY_BYTES_MAX, WriteMemo
from app.http.input.params import Parameters, parse_register
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import RegisterInstance


class Reading:
    """Reads queries with one memo, and counts those that the parser had to read."""

    def __init__(self) -> None:
        self.memo = WriteMemo()
        self.parsed = 0

    def read(self, query: str) -> RegisterInstance:
        def parameters() -> Parameters:
            self.parsed += 1
            return Parameters.of(query.encode(), "", b"", "POST")

        return self.memo.parse(parse_register, query.encode(), parameters)


def whole(query: str) -> RegisterInstance:
    return parse_register(Parameters.of(query.encode(), "", b"", "POST"))


def query_of(metadata: str, behind: str = "") -> str:
    return f"serviceName=a&ip=10.0.0.1&port=80&metadata={metadata}{behind}"


METADATA = [quote('{"zone":"a"}'), quote('{"zone":"b","n":"1"}'), "k=v".replace("=", "%3D"), quote('{"zone":"a"}')]


@pytest.mark.parametrize("behind", ["", "&weight=2.0", "&weight=2.0&app=x"])
def test_only_the_metadata_are_read_anew(behind: str) -> None:
    reading = Reading()
    for metadata in METADATA:
        assert reading.read(query_of(metadata, behind)) == whole(query_of(metadata, behind))
    assert reading.parsed == 1


def test_what_differs_elsewhere_is_parsed() -> None:
    reading = Reading()
    first, second = query_of("%7B%7D"), query_of("%7B%7D").replace("10.0.0.1", "10.0.0.2")
    assert (reading.read(first).ip, reading.read(second).ip) == ("10.0.0.1", "10.0.0.2")
    assert reading.parsed == 2


def test_a_query_without_metadata_is_known_when_it_comes_again() -> None:
    reading = Reading()
    query = "serviceName=a&ip=10.0.0.1&port=80"
    assert reading.read(query) is reading.read(query)
    assert reading.parsed == 1


@pytest.mark.parametrize(
    "other", ["", "%7B%22a%22%3A", "x" * 600, "%7B%22a%22%3A1%7D", "a+b%3D1", "%7B%22k%22%3A%22%C3%A9%22%7D"]
)
def test_other_metadata_mean_what_the_parser_says(other: str) -> None:
    reading = Reading()
    reading.read(query_of(METADATA[0]))

    def outcome(read: object) -> object:
        try:
            return read(query_of(other))  # type: ignore[operator]
        except InvalidParam as error:
            return error.text

    assert outcome(reading.read) == outcome(whole)


def test_metadata_that_are_named_twice_are_no_shape() -> None:
    reading = Reading()
    for last in ("%7B%22a%22%3A%221%22%7D", "%7B%22a%22%3A%222%22%7D"):
        query = f"serviceName=a&ip=10.0.0.1&port=80&metadata={METADATA[1]}&metadata={last}"
        assert reading.read(query) == whole(query)


def test_a_long_query_is_not_kept() -> None:
    reading = Reading()
    query = query_of(METADATA[0], f"&x={'x' * MEMO_QUERY_BYTES_MAX}")
    assert reading.read(query) == reading.read(query)
    assert reading.parsed == 2


@pytest.mark.parametrize("query", ["serviceName=a&ip=10.0.0.1&port=80", query_of(METADATA[0])])
def test_a_query_with_a_password_is_not_kept(query: str) -> None:
    reading = Reading()
    for _ in range(2):
        assert reading.read(f"{query}&username=u&password=p") == whole(query)
    assert reading.parsed == 2
