"""Durable writes of many threads: what shares a wait for the disk, what comes first, and what fails with what."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock, get_ident

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.auth.user_table import UserTable
from app.auth.users import AdminExists, Users
from app.members.membership import check_call_deadline, executing_until
from app.naming.model.nacos_errors import InvalidParam, StorageError, Unavailable
from app.naming.records.record import Record, Value
from app.naming.records.records import UNKNOWN_REMOVED_MAX, Records
from app.naming.records.user_records import ADMIN_ROLE
from app.naming.records.write_order import GroupCommit, WriteTurns
from app.tools.simulation.member.disk import MemoryDisk
from distro.model.errors import CodecError
from distro.model.types import Datum, Version
from tests.support.processes import eventually
from tests.support.thorough import examples

ME, OTHER = "a:1~1", "b:1~1"
THREADS = 8
WAIT_S = 20.0
NO_JSON = {"x": b"no JSON holds bytes"}


class GatedDisk(MemoryDisk):
    """A disk whose first write waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_writing, self.may_go_on = Event(), Event()
        self.groups: list[list[str]] = []

    def write(self, records: list[Record], offset_ms: int) -> None:
        self.groups.append([one.key for one in records])
        if len(self.groups) == 1:
            self.is_writing.set()
            assert self.may_go_on.wait(WAIT_S)
        if any(one.value == NO_JSON for one in records):
            raise InvalidParam("a value cannot be kept")
        super().write(records, offset_ms)


class Busy:
    """Records of which one write, of ``first``, is at the disk while others come."""

    def __init__(self, pool: ThreadPoolExecutor, on_change: Callable[[Record], None] | None = None) -> None:
        self.pool = pool
        self.disk = GatedDisk()
        self.told: list[str] = []
        self.records = Records(
            ME, self.disk, lambda: 1_000, lambda: 1_000, on_change or self._tell, check_call_deadline
        )
        self.first = self.put("first", {"x": 0})
        assert self.disk.is_writing.wait(WAIT_S)

    def _tell(self, record: Record) -> None:
        self.told.append(record.key)

    def put(self, key: str, value: Value | None, *, is_over: Callable[[], bool] = lambda: False) -> "Future[list[str]]":
        """Set a record by a thread of its own; return once it stands in line, or waits for its turn."""
        asked = in_line(self.records) + waiting(self.records)

        def write() -> list[str]:
            with executing_until(is_over):
                return self.records.put_all({key: lambda _: value})

        future = self.pool.submit(write)
        eventually(lambda: in_line(self.records) + waiting(self.records) != asked or future.done(), WAIT_S)
        return future

    def go_on(self) -> None:
        self.disk.may_go_on.set()


def in_line(records: Records) -> int:
    """How many writes stand in front of the disk."""
    return len(records._commits._line)


def waiting(records: Records) -> int:
    """How many turns wait behind another."""
    return sum(len(queue) - 1 for queue in list(records._turns._queues.values()))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS + 4) as made:
        yield made


@pytest.fixture
def busy(pool: ThreadPoolExecutor) -> Iterator[Busy]:
    made = Busy(pool)
    yield made
    made.go_on()


def test_what_comes_while_the_disk_writes_is_decided_and_shares_the_next_wait(busy: Busy) -> None:
    writes = [busy.put(f"k{number}", {"x": number}) for number in range(THREADS)]
    assert in_line(busy.records) == THREADS + 1, "all are decided while the disk is busy"
    assert busy.records.value("k0") is None, "no reader sees what is not durable"
    busy.go_on()
    assert [write.result(WAIT_S) for write in writes] == [[f"k{number}"] for number in range(THREADS)]
    assert busy.disk.groups == [["first"], [f"k{number}" for number in range(THREADS)]]
    assert busy.told == ["first", *busy.disk.groups[1]], "others are told in the order of the disk"


def test_writes_of_one_key_wait_for_each_other_and_none_for_them(busy: Busy) -> None:
    again, other = busy.put("first", {"x": 1}), busy.put("other", {"x": 2})
    busy.go_on()
    for write in (busy.first, again, other):
        write.result(WAIT_S)
    assert busy.records.version("first") == Version(1, 1, ME)
    assert busy.disk.groups[1][0] == "other", "it did not wait for the second write of the first key"
    assert [key for group in busy.disk.groups for key in group] == ["first", "other", "first"]


def test_a_full_disk_fails_all_that_it_did_not_take_and_the_line_goes_on(busy: Busy) -> None:
    writes = [busy.put(f"k{number}", {"x": number}) for number in range(3)]
    busy.disk.full = True
    busy.go_on()
    for write in (busy.first, *writes):
        with pytest.raises(StorageError, match="full"):
            write.result(WAIT_S)
    assert busy.records.all_keys() == []
    assert busy.told == []
    busy.disk.full = False
    assert busy.put("k0", {"x": 9}).result(WAIT_S) == ["k0"]


def test_a_record_that_cannot_be_written_fails_alone(busy: Busy) -> None:
    good, bad, also_good = busy.put("good", {"x": 1}), busy.put("bad", NO_JSON), busy.put("also good", {"x": 2})
    busy.go_on()
    assert (good.result(WAIT_S), also_good.result(WAIT_S)) == (["good"], ["also good"])
    with pytest.raises(InvalidParam):
        bad.result(WAIT_S)
    assert set(busy.disk.records) == {"first", "good", "also good"} == set(busy.records.all_keys())


def test_a_call_that_is_given_up_while_it_stands_in_line_writes_nothing_whoever_writes_for_it(busy: Busy) -> None:
    is_given_up = Event()
    kept, late = busy.put("kept", {"x": 1}), busy.put("late", {"x": 2}, is_over=is_given_up.is_set)
    is_given_up.set()
    busy.go_on()
    assert kept.result(WAIT_S) == ["kept"]
    with pytest.raises(Unavailable):
        late.result(WAIT_S)
    assert busy.disk.groups == [["first"], ["kept"]]
    assert busy.records.version("late") is None


def test_no_lock_is_held_while_others_are_told_and_each_thread_tells_of_its_own(pool: ThreadPoolExecutor) -> None:
    tellers: dict[str, int] = {}
    is_telling, may_return = Event(), Event()

    def tell(record: Record) -> None:
        tellers[record.key] = get_ident()
        if record.key == "first":
            is_telling.set()
            assert may_return.wait(WAIT_S)

    busy = Busy(pool, tell)
    busy.go_on()
    assert is_telling.wait(WAIT_S)
    assert busy.records.value("first") == {"x": 0}, "it is durable, and seen"
    second = busy.put("second", {"x": 1})
    assert not busy.records._commits._lock.locked()
    assert not busy.records._turns._lock.locked()
    assert in_line(busy.records) == 2, "it is decided, and stands in line"
    may_return.set()
    assert second.result(WAIT_S) == ["second"]
    assert tellers["first"] != tellers["second"]


def test_an_error_of_who_is_told_is_that_write_s_alone(pool: ThreadPoolExecutor) -> None:
    def tell(record: Record) -> None:
        if record.key == "bad":
            raise ZeroDivisionError

    busy = Busy(pool, tell)
    bad, good = busy.put("bad", {"x": 1}), busy.put("good", {"x": 2})
    busy.go_on()
    assert good.result(WAIT_S) == ["good"]
    with pytest.raises(ZeroDivisionError):
        bad.result(WAIT_S)


def test_a_peer_s_datum_waits_for_the_write_of_its_key_and_is_then_resolved_again(busy: Busy) -> None:
    version = Version(2, 5, OTHER)
    datum = Datum("first", version, Record("first", version, version, {"x": 5}, 2_000))
    unexpected = busy.pool.submit(busy.records.apply, datum, None, 1_000)
    eventually(lambda: waiting(busy.records) == 1, WAIT_S)
    busy.go_on()
    assert not unexpected.result(WAIT_S), "what was expected, nothing, is no longer so"
    assert busy.records.apply(datum, Version(1, 0, ME), 1_000)
    assert busy.records.value("first") == {"x": 5}


def test_two_groups_of_peers_that_share_keys_in_another_order_do_not_wait_for_each_other(busy: Busy) -> None:
    keys = [f"k{number}" for number in range(50)]

    def take(writer: str, counter: int, ordered: list[str]) -> None:
        version = Version(1, counter, writer)
        with busy.records.grouped(ordered):
            for key in ordered:
                busy.records.merge(Datum(key, version, Record(key, version, version, {"x": counter}, 1)), 1_000)

    groups = [busy.pool.submit(take, OTHER, 7, keys), busy.pool.submit(take, "c:1~1", 9, keys[::-1])]
    busy.go_on()
    for group in groups:
        group.result(WAIT_S)
    assert {busy.records.version(key) for key in keys} == {Version(1, 9, "c:1~1")}
    assert {key: one.version for key, one in busy.disk.records.items()} == busy.records.versions()


def test_a_group_that_the_disk_refuses_fails_alone_and_its_thread_has_no_group_any_more(busy: Busy) -> None:
    version = Version(1, 1, OTHER)
    datum = Datum("k", version, Record("k", version, version, {"x": 1}, 1))
    busy.go_on()
    busy.first.result(WAIT_S)
    busy.disk.full = True
    with pytest.raises(CodecError):
        busy.records.apply(datum, None, 1_000)
    busy.disk.full = False
    assert busy.records.apply(datum, None, 1_000)


def test_of_two_first_administrators_at_once_one_is_made(busy: Busy) -> None:
    table = UserTable()
    busy.records._on_change = table.on_record
    users = Users(busy.records, table, lambda: 1_000, lambda _event: None)
    made = [busy.pool.submit(users.create_first_admin, name, f"$argon2id$of-{name}") for name in ("ann", "bob")]
    eventually(lambda: in_line(busy.records) + waiting(busy.records) == 3, WAIT_S)
    busy.go_on()
    errors = [one.exception(WAIT_S) for one in made]
    assert {type(error) for error in errors} == {type(None), AdminExists}
    assert len([role for role, _ in table.roles() if role == ADMIN_ROLE]) == 1


def test_removals_of_unknown_keys_by_many_threads_are_bounded(pool: ThreadPoolExecutor) -> None:
    disk = MemoryDisk()
    records = Records(ME, disk, lambda: 1_000, lambda: 1_000, lambda _record: None)

    def remove(number: int) -> None:
        keys = [f"k{number}-{at}" for at in range(1_500)]
        for at in range(0, 1_500, 100):
            records.put_all(dict.fromkeys(keys[at : at + 100], lambda _old: None), force=True)

    list(pool.map(remove, range(THREADS)))
    assert len(records.all_keys()) == UNKNOWN_REMOVED_MAX
    assert set(disk.records) == set(records.all_keys())


@pytest.mark.parametrize("key", ["other", "k"])
def test_who_is_told_of_a_write_and_writes_gets_an_error_and_does_not_wait_for_itself(key: str) -> None:
    told: list[BaseException] = []

    def write_again(_record: Record) -> None:
        with pytest.raises(RuntimeError, match="must not write a record") as raised:
            records.put_all({key: lambda _: {"x": 1}})
        told.append(raised.value)

    records = Records(ME, MemoryDisk(), lambda: 1_000, lambda: 1_000, write_again)
    assert records.put_all({"k": lambda _: {"x": 1}}) == ["k"]
    assert len(told) == 1
    assert records.all_keys() == ["k"]


def test_an_error_in_the_check_of_one_write_is_no_others(busy: Busy) -> None:
    class LaterOver:
        asked = 0

        def __call__(self) -> bool:
            self.asked += 1
            if self.asked > 1:
                raise ValueError("a call that cannot be asked")
            return False

    good, bad, other = busy.put("a", {"x": 1}), busy.put("b", {"x": 2}, is_over=LaterOver()), busy.put("c", {"x": 3})
    busy.go_on()
    assert good.result(WAIT_S) == ["a"]
    assert other.result(WAIT_S) == ["c"]
    with pytest.raises(ValueError, match="cannot be asked"):
        bad.result(WAIT_S)
    assert busy.records.value("b") is None
    assert {one.key for one in busy.disk.read_all(0)} == {"first", "a", "c"}


# --- turns ------------------------------------------------------------------------------------------


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.frozensets(st.sampled_from("abcde"), max_size=4), min_size=2, max_size=12))
def test_turns_of_any_names_all_end_and_no_name_is_had_twice_at_once(wanted: list[frozenset[str]]) -> None:
    turns, had, lock = WriteTurns(), set[str](), Lock()

    def take(names: frozenset[str]) -> None:
        with turns.at(names):
            with lock:
                assert not had & names
                had.update(names)
            with lock:
                had.difference_update(names)

    with ThreadPoolExecutor(len(wanted)) as pool:
        for one in [pool.submit(take, names) for names in wanted * 3]:
            one.result(WAIT_S)
    assert not turns._queues


def test_an_error_within_a_turn_ends_it() -> None:
    turns = WriteTurns()
    with pytest.raises(ZeroDivisionError), turns.at(["a", "b"]):
        raise ZeroDivisionError
    with turns.at(["b", "a"]):
        pass


def test_a_turn_is_not_overtaken_by_a_later_one_of_fewer_names(pool: ThreadPoolExecutor) -> None:
    turns, order = WriteTurns(), list[str]()
    is_in, may_leave = Event(), Event()

    def hold() -> None:
        with turns.at(["a"]):
            is_in.set()
            assert may_leave.wait(WAIT_S)

    def note(names: list[str], called: str) -> None:
        with turns.at(names):
            order.append(called)

    def queued(name: str, length: int) -> None:
        eventually(lambda: len(turns._queues.get(name, ())) == length, WAIT_S)

    holding = pool.submit(hold)
    assert is_in.wait(WAIT_S)
    both = pool.submit(note, ["a", "b"], "both")
    queued("b", 1)
    late = pool.submit(note, ["b"], "late")
    queued("b", 2)
    may_leave.set()
    for one in (holding, both, late):
        one.result(WAIT_S)
    assert order == ["both", "late"]


def test_a_deletion_that_fails_does_not_end_the_line() -> None:
    disk = MemoryDisk()
    line = GroupCommit(disk, lambda: 0)
    disk.full = True
    with pytest.raises(StorageError), line.deleted(["k"]):
        raise AssertionError("nothing follows from what was not done")
    disk.full = False
    record = Record("k", Version(1, 1, ME), Version(1, 1, ME), {"x": 1}, 1)
    with line.written([record], lambda: None):
        assert disk.records == {"k": record}
