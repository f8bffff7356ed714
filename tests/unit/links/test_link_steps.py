"""The steps of a link, by a time of the test: which server it calls, for how long, and when it is silent."""

from app.links.feed_lines import FollowedPart
from app.links.follower import LinkFollower
from app.links.link_calls import TIMEOUT_S, LinkError
from app.links.link_steps import (
    AGAIN_S,
    SILENT_MS,
    WAIT_S,
    CompareSlice,
    Connect,
    Disconnect,
    LinkSteps,
    OpenStream,
    ReadStream,
    Rest,
)
from tests.unit.links.test_follower import Side, settings_of

MARKED_MS = 5_000
"""In so long after the last word of the other cluster its instances are marked (docs/links.md)."""


class Calling:
    """A link at the time ``now``, whose next step is to connect. It heard the other cluster at the beginning."""

    def __init__(self) -> None:
        self.now = [1_000_000]
        side = Side("here", "here:1~1", self.now)
        settings = settings_of()
        self.follower = LinkFollower(settings, lambda: "here", side.store, side.foreign.would_be_empty, self.now[0])
        self.follower.follow(FollowedPart(0, 1, settings.chosen))
        self.steps = LinkSteps(self.follower, lambda: (0, 1), lambda: self.now[0], lambda: 0.0).run()
        assert next(self.steps) == Rest(0.0)
        self.step = self._connect()

    def _connect(self) -> Connect:
        step = self.steps.send(None)
        assert isinstance(step, Connect)
        return step

    def fail(self, after_s: float) -> None:
        """Have the step fail after so long, and take the next ones up to the next call."""
        self.now[0] += round(after_s * 1_000)
        assert self.steps.throw(LinkError("no answer")) == Disconnect()
        rest = self.steps.send(None)
        assert isinstance(rest, Rest)
        self.now[0] += round(rest.seconds * 1_000)
        self.step = self._connect()


def test_silence_is_marked_in_time_when_a_server_that_refuses_is_followed_by_one_that_does_not_answer() -> None:
    link = Calling()
    link.fail(SILENT_MS / 1_000 - 0.1)  # a word of less than SILENT_MS ago: not silent yet
    assert not link.follower.stale
    heard_ms = link.follower.heard_ms
    link.fail(link.step.timeout_s)
    assert link.follower.stale
    assert link.now[0] - heard_ms <= MARKED_MS


def test_a_silent_link_waits_for_a_connection_as_long_as_for_an_answer() -> None:
    link = Calling()
    assert link.step.timeout_s == TIMEOUT_S
    link.fail(link.step.timeout_s)
    assert (link.follower.stale, link.step.timeout_s) == (True, TIMEOUT_S)


class Streaming:
    """A link that reads the stream of a cluster without services. ``place`` is what this member owns."""

    def __init__(self) -> None:
        self.now, self.place = [1_000_000], [(0, 1)]
        there, here, settings = Side("there", "there:1~1", self.now), Side("here", "here:1~1", self.now), settings_of()
        would_be_empty = here.foreign.would_be_empty
        self.follower = LinkFollower(settings, lambda: "here", here.store, would_be_empty, self.now[0])
        steps = self.steps = LinkSteps(self.follower, self._part, lambda: self.now[0], lambda: 0.0).run()
        self.greeting = there.greeting().fields(there.feed, there.feed.place())
        assert next(steps) == Rest(0.0)
        assert isinstance(steps.send(None), Connect)
        assert isinstance(steps.send(None), CompareSlice)
        step = steps.send(self.greeting | {"services": 0, "more": False, "gone": [], "set": []})
        assert isinstance(step, OpenStream), self.follower.error
        assert isinstance(steps.send(None), ReadStream)

    def _part(self) -> tuple[int, int] | None:
        return self.place[0] if self.place else None


def test_a_member_that_owned_nothing_for_a_while_compares() -> None:
    """L8: another member followed these services meanwhile, and may have marked them as stale."""
    link = Streaming()
    steps, place = link.steps, link.place.pop()
    assert isinstance(steps.send(([link.greeting], 100)), Rest)
    assert [steps.send(None), steps.send(None), steps.send(None)] == [Disconnect(), Rest(AGAIN_S), Rest(WAIT_S)]
    link.place.append(place)
    assert isinstance(steps.send(None), Connect)
    assert isinstance(steps.send(None), CompareSlice)


def test_a_member_that_stood_still_takes_no_word_of_before() -> None:
    """It would take an old statement for the latest one, and have it replace what another member heard since."""
    link = Streaming()
    heard_ms = link.follower.heard_ms
    link.now[0] += SILENT_MS + 1
    assert link.steps.send(([link.greeting], 100)) == Disconnect()
    assert link.follower.heard_ms == heard_ms
    assert "stood still" in link.follower.error
