"""The thread of a link to a Nacos, whose servers a test plays: it goes to the next one after a failure or a reset."""

from collections.abc import Callable, Iterator

import pytest

from app.config.link_settings import LinkSettings
from app.links import nacos_thread
from app.links.follower import LinkFollower
from app.links.link_calls import LinkError
from app.links.nacos_side import NacosMoved
from app.links.nacos_thread import NacosThread
from tests.support.processes import eventually
from tests.unit.links.test_follower import Side
from tests.unit.links.test_nacos_out import NAME, THERE, settings_of
from tests.unit.links.test_nacos_session import PlayedNacos


class PlayedServers:
    """The servers of a Nacos: each connection to one, in order, and what it does."""

    def __init__(self) -> None:
        self.opened: list[PlayedNacos] = []
        self.closed: list[tuple[PlayedNacos, bool, int]] = []
        """Each connection that was ended, whether what it registered was removed, and how many were opened then."""
        self.fails: Callable[[int, str], None] = lambda number, call: None

    def connect(self, settings: LinkSettings, server: str) -> PlayedNacos:
        number = len(self.opened)
        side = PlayedNacos(number)
        side.server = server
        side.fails = lambda call: self.fails(number, call)
        side.close = lambda *, withdraws: self.closed.append((side, withdraws, len(self.opened)))  # type: ignore[method-assign]
        self.opened.append(side)
        return side


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> PlayedServers:
    played = PlayedServers()
    monkeypatch.setattr(nacos_thread, "GrpcNacos", played.connect)
    return played


@pytest.fixture
def thread(servers: PlayedServers) -> Iterator[NacosThread]:
    now = [1_000_000]
    here = Side("here", "here:1~1", now)
    here.put(NAME, "10.0.0.1")
    settings = settings_of(servers="127.0.0.1:1,127.0.0.1:2")
    follower = LinkFollower(settings, lambda: "here", here.store, here.foreign.would_be_empty, now[0])

    def later_ms() -> int:
        now[0] += 1
        return now[0]

    one = NacosThread(follower, lambda: (0, 1), later_ms, here.feed, lambda: "here")

    one.start()
    yield one
    one.end()
    assert one.join(10.0)


def test_a_server_that_sends_the_link_away_is_left_when_the_next_one_has_everything(
    servers: PlayedServers, thread: NacosThread
) -> None:
    eventually(lambda: servers.opened and THERE in servers.opened[0].registered)

    def send_away(number: int, call: str) -> None:
        if number == 0 and call == "check":
            raise NacosMoved("elsewhere")

    servers.fails = send_away
    eventually(lambda: servers.closed)
    [(left, withdrawn, opened)] = servers.closed
    assert (left is servers.opened[0], withdrawn, opened) == (True, False, 2)
    assert THERE in servers.opened[1].registered
    assert [one.server for one in servers.opened] == ["127.0.0.1:1", "127.0.0.1:2"]


def test_a_connection_whose_server_is_late_stays_until_the_next_one_has_everything(
    servers: PlayedServers, thread: NacosThread
) -> None:
    """Two carriers whose calls are late at once would leave the Nacos without an instance."""
    eventually(lambda: servers.opened and THERE in servers.opened[0].registered)
    registered_then: list[bool] = []

    def fail(number: int, call: str) -> None:
        if number == 0 and call == "check":
            raise LinkError("late")
        if number == 1 and call == "register":
            registered_then.append(not servers.closed)

    servers.fails = fail
    eventually(lambda: servers.closed)
    assert servers.closed == [(servers.opened[0], False, 2)]
    assert registered_then[0]
    assert (thread.steps.sent_services, thread.steps.sent_instances) == (1, 1)
    thread.end(withdraws=True)
    assert thread.join(10.0)
    assert servers.closed[1:] == [(servers.opened[1], True, 2)]
    assert thread.steps.sent_instances == 0


def gone(number: int, call: str) -> None:
    raise LinkError("gone")


def test_a_connection_that_is_kept_ends_with_the_link(servers: PlayedServers, thread: NacosThread) -> None:
    eventually(lambda: servers.opened and THERE in servers.opened[0].registered)
    servers.fails = gone
    eventually(lambda: len(servers.opened) > 2)
    assert servers.opened[0] not in [one for one, _, _ in servers.closed]
    thread.end()
    assert thread.join(10.0)
    assert {one.id for one, _, _ in servers.closed} == {one.id for one in servers.opened}


def test_a_connection_is_not_kept_for_longer_than_a_hand_over_while_no_server_answers(
    servers: PlayedServers, thread: NacosThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nacos_thread, "HANDOVER_MS", 10)
    eventually(lambda: servers.opened and THERE in servers.opened[0].registered)
    servers.fails = gone
    eventually(lambda: servers.opened[0] in [one for one, _, _ in servers.closed])
