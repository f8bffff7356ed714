"""The memo of requests under any order of requests and pauses: its bound, its reckoning, and what it never drops."""

from hypothesis import given
from hypothesis import strategies as st

from app.machine.process.loop_parts import UNUSED_S, RequestMemo

KINDS = 40
SIZES = [100 + 37 * kind for kind in range(KINDS)]
PAUSE_MAX_S = UNUSED_S / 2


class Kept:
    """One kept request, by its number."""

    __slots__ = ("number", "used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.used = True


class NumberKeeper:
    """Keeps each request but those whose number seven divides; they have sizes of their own."""

    def __init__(self) -> None:
        self.held: list[Kept] = []

    def keep(self, data: bytes, request: int) -> tuple[Kept, int] | None:
        if request % 7 == 0:
            return None
        self.held.append(Kept(request))
        return self.held[-1], SIZES[request]

    def drop(self, data: bytes, kept: Kept) -> int:
        self.held.remove(kept)
        return SIZES[kept.number]


STEPS = st.lists(
    st.tuples(st.integers(0, KINDS - 1), st.floats(0, PAUSE_MAX_S, allow_nan=False)), min_size=1, max_size=300
)


class Bed:
    """A memo of numbers, with a clock of its own."""

    def __init__(self, bytes_max: int) -> None:
        self.now_s = 0.0
        self.keeper = NumberKeeper()
        self.memo: RequestMemo[int, Kept] = RequestMemo(self.keeper, bytes_max, 100, 1_024, lambda: self.now_s)

    def send(self, number: int) -> bool:
        """Return whether the memo knew the request."""
        data = b"request %d" % number
        kept = self.memo.find(data)
        if kept is None:
            self.memo.note(data, number)
            return False
        assert kept.number == number
        kept.used = True
        return True


@given(STEPS, st.integers(1, 40_000))
def test_the_memory_is_bounded_and_counted_entry_by_entry(steps: list[tuple[int, float]], bytes_max: int) -> None:
    bed = Bed(bytes_max)
    for number, pause_s in steps:
        bed.now_s += pause_s
        bed.send(number)
        held = bed.keeper.held
        assert bed.memo.bytes_held == sum(SIZES[kept.number] for kept in held)
        assert bed.memo.bytes_held < bytes_max + max(SIZES), "the last one may be larger than the room"
        assert len(bed.memo) == len(held) == len({kept.number for kept in held})


@given(STEPS, st.integers(1, 40_000))
def test_a_kept_request_that_comes_every_minute_is_always_found(steps: list[tuple[int, float]], bytes_max: int) -> None:
    bed = Bed(bytes_max)
    found_s: dict[int, float] = {}
    """The time at which each request was found last, or kept."""
    for number, pause_s in steps:
        bed.now_s += pause_s
        if bed.send(number):
            found_s[number] = bed.now_s
        else:
            at_s = found_s.pop(number, None)
            assert at_s is None or bed.now_s - at_s >= UNUSED_S
            if bed.memo.find(b"request %d" % number) is not None:
                found_s[number] = bed.now_s


@given(st.integers(1, KINDS), st.integers(2, 6))
def test_a_round_that_fits_is_found_from_the_third_time_on(count: int, rounds: int) -> None:
    bed = Bed(sum(SIZES))
    for turn in range(rounds):
        found = [bed.send(number) for number in range(count)]
        if turn >= 2:
            assert found == [number % 7 != 0 for number in range(count)]
        bed.now_s += 5.0


@given(STEPS)
def test_entries_that_nobody_uses_leave_while_others_come(steps: list[tuple[int, float]]) -> None:
    bed = Bed(1_000_000)
    for number, pause_s in steps:
        bed.now_s += pause_s
        bed.send(number)
    for later in range(3):
        bed.now_s += UNUSED_S
        for number in range(KINDS):  # as many others, whose looks reach each entry
            bed.memo.note(b"later %d %d" % (later, number), 1)
            bed.memo.note(b"later %d %d" % (later, number), 1)
    assert all(bed.memo.find(b"request %d" % number) is None for number in range(KINDS))
