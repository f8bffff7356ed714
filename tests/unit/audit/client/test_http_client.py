"""Calls to one member: what is tried again, what is bounded, and what an error says."""

import gzip
import time
from collections.abc import Callable, Iterator
from threading import Event, Timer
from typing import Any

import pytest

from app.tools.audit.client import http_client
from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import CallError, MemberClient, OtherType, Patience, Refused, Unusable
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

Make = Callable[..., tuple[MemberClient, TinyServer]]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make a client of a server that answers as the test says."""
    opened: list[Any] = []

    def make(answer: Callable[[Received], Given], retries: int = 0, **fields: Any) -> tuple[MemberClient, TinyServer]:
        manager = tiny_server(answer)
        server = manager.__enter__()
        client = MemberClient(server.address, Access(**{"timeout_s": 60.0, **fields}), Patience(retries, Event()))
        opened.append((manager, client))
        return client, server

    yield make
    for manager, client in opened:
        client.close()
        manager.__exit__(None, None, None)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow at once."""
    monkeypatch.setattr(http_client, "BACK_OFF_S", 0.0)


def answers(*given: Given) -> Callable[[Received], Given]:
    """These, one after the other; the last goes on."""
    left = list(given)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


@pytest.mark.usefixtures("patience")
class TestRetries:
    @pytest.mark.parametrize(
        "failure", [Given(503), Given(502), Given(429), Given(hang_up=True), Given(200, b"whole", cut_at=2)]
    )
    def test_what_may_pass_is_tried_again(self, make: Make, failure: Given) -> None:
        client, server = make(answers(failure, failure, Given(200, b"there")), retries=2)
        assert client.get("/x").body == b"there"
        assert len(server.received) == 3

    @pytest.mark.parametrize("status", [400, 403, 404, 500, 501])
    def test_what_will_not_pass_is_not(self, make: Make, status: int) -> None:
        client, server = make(answers(Given(status, b"no \n such")), retries=3)
        with pytest.raises(Refused, match=f"^/x: status {status}, no such$") as raised:
            client.get("/x")
        assert raised.value.status == status
        assert len(server.received) == 1

    def test_no_redirect_is_followed_as_it_would_take_the_token_along(self, make: Make) -> None:
        client, server = make(answers(Given(302, b"", {"Location": "/y"})), retries=3)
        with pytest.raises(Refused, match="status 302"):
            client.get("/x")
        assert [one.target for one in server.received] == ["/nacos/x"]

    def test_retries_are_of_all_calls_together(self, make: Make) -> None:
        failing = answers(Given(503), Given(200), Given(503), Given(200), Given(503))
        client, server = make(failing, retries=2)
        client.get("/a")
        client.get("/b")
        with pytest.raises(Refused, match="/c: status 503"):
            client.get("/c")
        assert len(server.received) == 5

    def test_a_dump_that_is_ended_waits_for_nothing(self, make: Make) -> None:
        stop = Event()
        waiting = Patience(5, stop)
        stop.set()
        assert not waiting.try_again(CallError("x"))


def test_pauses_grow_and_follow_the_member_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorded(Event):
        def __init__(self) -> None:
            super().__init__()
            self.pauses: list[float | None] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.pauses.append(timeout)
            return False

    stop = Recorded()
    waiting = Patience(8, stop)
    busy = Refused("/x", 503, "", retry_after_s=4.0)
    assert all(waiting.try_again(error) for error in (CallError("a"), CallError("b"), busy, *[CallError("c")] * 5))
    assert stop.pauses == [0.25, 0.5, 4.0, 2.0, 4.0, 5.0, 5.0, 5.0]
    assert not waiting.try_again(CallError("d"))


class TestBounds:
    def test_a_body_over_its_bound_is_not_read_on(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_client, "BODY_BYTES_MAX", 1_000)
        client, _ = make(answers(Given(200, b"x" * 300_000)))
        with pytest.raises(Unusable, match="over 1000 bytes"):
            client.get("/x")

    def test_so_is_a_small_one_that_grows(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_client, "BODY_BYTES_MAX", 100_000)
        body = gzip.compress(b"x" * 10_000_000)
        client, _ = make(answers(Given(200, body, {"Content-Encoding": "gzip"})))
        with pytest.raises(Unusable, match="over 100000 bytes"):
            client.get("/x")

    def test_gzip_is_taken(self, make: Make) -> None:
        client, _ = make(answers(Given(200, gzip.compress(b"plain"), {"Content-Encoding": "gzip"})))
        assert client.get("/x").body == b"plain"

    def test_broken_gzip_is_a_failure(self, make: Make) -> None:
        client, _ = make(answers(Given(200, b"\x1f\x8bnot", {"Content-Encoding": "gzip"})))
        with pytest.raises(CallError, match="ended early"):
            client.get("/x")

    def test_an_answer_that_drips_ends_at_its_deadline(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_client, "ANSWER_S_MAX", 0.3)
        client, _ = make(answers(Given(200, b"x" * 10_000, {}, drip_s=0.01)))
        began_s = time.monotonic()
        with pytest.raises(CallError, match=r"took over 0\.3 s"):
            client.get("/x")
        assert time.monotonic() - began_s < 60.0

    def test_silence_ends_at_the_time_out(self, make: Make) -> None:
        client, _ = make(answers(Given(200, b"x" * 100, drip_s=3.0)), timeout_s=0.2)
        with pytest.raises(CallError, match=r"/x: no answer within 0\.2 s"):
            client.get("/x")

    def test_a_dump_that_is_ended_stops_in_the_middle(self, make: Make) -> None:
        stop = Event()
        with tiny_server(answers(Given(200, b"x" * 1_000, {}, drip_s=0.01))) as server:
            client = MemberClient(server.address, Access(), Patience(0, stop))
            timer = Timer(0.2, stop.set)
            timer.start()
            try:
                with pytest.raises(Unusable, match="was stopped"):
                    client.get("/x")
            finally:
                timer.join()
                client.close()


class TestLines:
    def test_lines_without_the_rest(self, make: Make) -> None:
        client, _ = make(answers(Given(200, b"a\nbb\n\nhalf", {"Content-Type": "application/x-ndjson; charset=x"})))
        with client.lines("/x", "application/x-ndjson") as lines:
            assert list(lines) == [b"a", b"bb", b""]

    def test_another_type_is_another_answer(self, make: Make) -> None:
        client, _ = make(answers(Given(200, b"<html>", {"Content-Type": "text/html"})))
        with pytest.raises(OtherType), client.lines("/x", "application/x-ndjson"):
            pass

    def test_a_line_without_an_end_is_bounded(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_client, "LINE_BYTES_MAX", 100_000)
        client, _ = make(answers(Given(200, b"x" * 1_000_000, {"Content-Type": "t"})))
        with client.lines("/x", "t") as lines, pytest.raises(Unusable, match="a line is over 100000 bytes"):
            list(lines)


class TestErrors:
    def test_nobody_listens(self) -> None:
        client = MemberClient(refusing_address(), Access(timeout_s=1.0), Patience(0, Event()))
        with pytest.raises(CallError, match=r"^/x: connection refused$"):
            client.get("/x")
        client.close()

    def test_no_such_host(self) -> None:
        client = MemberClient("no-such-host.invalid:8848", Access(timeout_s=1.0), Patience(0, Event()))
        with pytest.raises(CallError, match=r"^/x: \w"):
            client.get("/x")
        client.close()

    def test_a_connection_that_is_closed(self, make: Make) -> None:
        client, _ = make(answers(Given(hang_up=True)))
        with pytest.raises(CallError, match=r"^/x: the connection was closed$"):
            client.get("/x")

    def test_the_token_is_in_no_error(self, make: Make) -> None:
        client, _ = make(
            answers(Given(200, b'{"accessToken": "s3cret"}'), Given(hang_up=True)), user="u", password="p4ss"
        )
        with pytest.raises(CallError) as raised:
            client.get("/x")
        shown = f"{raised.value!r} {raised.value.__cause__!r}"
        assert "s3cret" not in shown
        assert "p4ss" not in shown

    def test_no_proxy_of_the_environment_is_asked(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", f"http://{refusing_address()}")
        client, _ = make(answers(Given(200, b"direct")))
        assert client.get("/x").body == b"direct"
