"""When datums were applied and pushed here, as their writers are told."""

import pytest

from distro.model.types import DistroKey, Received, Version
from distro.receive.call_times import APPLIED_MAX, PUSH_LATE_S, PUSHES_MAX, AppliedTimes

PEER, OTHER = "10.0.0.2:8848", "10.0.0.3:8848"
V1, V2 = Version(1, 1, f"{PEER}~1"), Version(1, 2, f"{PEER}~1")


def key_of(name: str) -> DistroKey:
    return DistroKey("t", name)


KEY = key_of("k")


class Times(AppliedTimes):
    """Times by a clock that the test sets; ``pushes`` says whether this node has subscribers."""

    def __init__(self, *, pushes: bool = True) -> None:
        self.at_s = 100.0
        super().__init__(lambda: self.at_s, lambda _key: pushes)

    def apply(self, key: DistroKey = KEY, version: Version = V1, *, sender: str = PEER, took_s: float = 0.0) -> None:
        """Note the sender's datum as applied now, after ``took_s``."""
        self.note(key, version, sender, self.at_s - took_s, 0)

    def told(self, sender: str = PEER, resource_type: str = "t") -> dict[str, float]:
        return dict(self.with_pushes(Received(), sender, resource_type).pushed_ms)


# --- how long ago --------------------------------------------------------------------------------


def test_the_age_of_a_state_counts_from_its_application() -> None:
    times = Times(pushes=False)
    times.apply()
    times.at_s += 0.01234
    assert times.ages_ms("t", {"k": V1}, 0) == {"k": 12.3}
    times.apply(version=V2)
    times.at_s += 1.0
    assert times.ages_ms("t", {"k": V1}, 0) == {"k": 1_000.0}, "the later state contains the earlier one"


def test_only_states_that_were_applied_have_an_age() -> None:
    times = Times(pushes=False)
    times.apply()
    times.apply(key_of("of real Nacos"), Version(1, 1, ""))
    times.at_s += 1.0
    assert times.ages_ms("t", {"k": V2, "other": V1, "of real Nacos": Version(1, 1, "")}, 0) == {}
    assert times.ages_ms("another type", {"k": V1}, 0) == {}


@pytest.mark.parametrize(("later_s", "ages_ms"), [(0.0004, {}), (0.0005, {"k": 0.5}), (0.0006, {"k": 0.6})])
def test_a_state_that_was_applied_with_the_call_takes_no_room(later_s: float, ages_ms: dict[str, float]) -> None:
    times = Times(pushes=False)
    times.at_s = 0.0
    times.apply()
    times.at_s = later_s
    assert times.ages_ms("t", {"k": V1}, 0) == ages_ms


def test_without_a_finer_clock_the_ms_of_the_callers_count() -> None:
    times = AppliedTimes()
    assert times.time_s(2_500) == 2.5
    times.note(KEY, V1, PEER, 0.0, 1_000)
    assert times.ages_ms("t", {"k": V1}, 1_250) == {"k": 250.0}
    times.pushed(KEY, 9.0)
    assert times.with_pushes(Received(), PEER, "t") == Received(), "nobody subscribes"


def test_a_finer_clock_counts_alone() -> None:
    times = Times()
    assert times.time_s(2_500) == 100.0


def test_the_times_of_the_keys_that_were_applied_last_are_kept() -> None:
    times, keys = Times(pushes=False), [key_of(str(number)) for number in range(APPLIED_MAX)]
    for key in keys:
        times.apply(key)
    times.at_s += 1.0
    everything = {key.key: V1 for key in keys}
    assert len(times.ages_ms("t", everything, 0)) == APPLIED_MAX
    times.apply(keys[0], V2)  # the latest by now
    times.apply(KEY)
    times.at_s += 1.0
    assert everything.keys() - times.ages_ms("t", everything, 0).keys() == {"1"}


# --- pushes --------------------------------------------------------------------------------------


def test_a_push_is_told_once_to_the_member_that_sent_the_datum() -> None:
    times = Times()
    times.apply()
    assert times.told() == {}
    times.pushed(KEY, times.at_s + 0.12345)
    assert times.told(OTHER) == {}
    assert times.told(resource_type="another type") == {}
    received = Received({"r": V1}, {"f": "why"}, ("w",), {"a": 1.0}, {}, 3)
    told = Received({"r": V1}, {"f": "why"}, ("w",), {"a": 1.0}, {"k": 123.5}, 3)
    assert times.with_pushes(received, PEER, "t") == told
    assert times.told() == {}
    times.pushed(KEY, times.at_s + 0.2)
    assert times.told() == {}, "that push was of no datum"


def test_a_push_may_come_before_the_datum_is_noted_as_applied() -> None:
    times = Times()
    times.pushed(KEY, times.at_s)
    times.at_s += 0.1
    times.apply(took_s=0.05)
    assert times.told() == {}, "the push was over before this datum came"
    times.pushed(KEY, times.at_s + 0.03)
    assert times.told() == {"k": 30.0}
    times.pushed(KEY, times.at_s)
    times.apply(took_s=0.0)
    assert times.told() == {"k": 0.0}, "it began no later than the push"
    times.pushed(KEY, times.at_s)
    times.at_s += 0.1
    times.apply(took_s=0.2)
    assert times.told() == {"k": 0.0}, "no push is earlier than the state that it has"


def test_without_subscribers_no_datum_waits_for_a_push() -> None:
    times = Times(pushes=False)
    times.apply()
    times.pushed(KEY, times.at_s + 1.0)
    assert times.told() == {}


@pytest.mark.parametrize(
    ("later_s", "sender", "took_ms"), [(PUSH_LATE_S, PEER, 1_500.0), (PUSH_LATE_S + 0.25, OTHER, 500.0)]
)
def test_a_push_is_that_of_the_first_datum_unless_it_is_long_ago(later_s: float, sender: str, took_ms: float) -> None:
    times = Times()
    times.apply()
    times.at_s += later_s
    times.apply(version=V2, sender=OTHER)
    times.pushed(KEY, times.at_s + 0.5)
    assert times.told(sender) == {"k": took_ms}
    assert times.told(PEER) == times.told(OTHER) == {}


def test_the_keys_that_wait_for_their_push_have_a_bound() -> None:
    times, keys = Times(), [key_of(str(number)) for number in range(PUSHES_MAX + 1)]
    for key in keys:
        times.apply(key)
    for key in reversed(keys):
        times.pushed(key, times.at_s)
    assert times.told().keys() == {key.key for key in keys[1:]}


def test_the_pushes_to_be_told_have_a_bound() -> None:
    times, keys = Times(), [key_of(str(number)) for number in range(PUSHES_MAX + 1)]
    for key in keys:
        times.apply(key)
        times.pushed(key, times.at_s)
    assert times.told().keys() == {key.key for key in keys[1:]}


def test_the_pushes_without_a_datum_have_a_bound() -> None:
    times, keys = Times(), [key_of(str(number)) for number in range(PUSHES_MAX)]
    for key in [*keys, keys[0], KEY]:  # the first is the latest but one
        times.pushed(key, times.at_s)
    for key in [keys[0], *keys[2:]]:
        times.apply(key)
    assert len(times.told()) == PUSHES_MAX - 1
    times.apply(keys[1])
    assert times.told() == {}, "its push is forgotten"
