"""The headers of a request: what is looked at when it is read."""

import pytest

from app.http.api.call import DEADLINE
from app.http.api.loop_call import HeaderBlock, RawHeaders

NAME = DEADLINE.encode()


@pytest.mark.parametrize(
    "raw",
    [
        [],
        [(b"Host", b"here"), (NAME, b"10.0.0.1:8848~1 2000")],
        [(NAME.title(), b" \t10.0.0.1:8848~1 2000 ")],
        [(NAME, b"10.0.0.1:8848~1 2000"), (NAME.upper(), b"10.0.0.1:8848~1 9000")],
        [(NAME, b"\xff")],
        [(NAME.replace(b"-", b"_"), b"10.0.0.1:8848~1 2000")],
        [(b"x" * len(NAME), b"10.0.0.1:8848~1 2000")],
    ],
)
def test_the_deadline_is_what_the_header_says(raw: RawHeaders) -> None:
    block = HeaderBlock(raw)
    assert block.deadline == block.named.get(DEADLINE)
    assert (block.deadline is not None) == any(name.lower() == NAME for name, _value in raw)
