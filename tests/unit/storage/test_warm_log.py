"""The warm-start store: what the next run takes over, and what it does not."""

import logging
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.machine.storage.warm_log import (
    FILE_NAME,
    FLUSH_MS,
    REOPEN_MS,
    ROWS_PER_STATEMENT,
    UNITS_PER_S,
    UNPACKED_BYTES_MAX,
    WINDOW_MS,
    WarmStore,
)
from app.naming.model.keys import datum_key, instance_key
from app.naming.model.model import NEVER_MS
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.types import Datum, Version

AGE_MS_MAX = 600_000
SERVICES = [f"g@@s{number}" for number in range(3)]


class Run:
    """One run of a member: its registry and its store on the folder."""

    def __init__(self, folder: Path, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = wall_ms
        self.now_ms = 1_000
        self.slices = 0
        self.registry = Registry.of("a:1~1")
        self.store = WarmStore(folder, InstanceListCodec(self._wall), self.registry.lists.datums, self._wall)

    def _wall(self) -> int:
        return self.wall_ms

    def load(self) -> list[Datum]:
        return sorted(self.store.load(AGE_MS_MAX, self.now_ms), key=lambda datum: datum.key)

    def register(self, service: str, ip: str, metadata: dict[str, str] | None = None) -> None:
        command = RegisterInstance(service, ip, 80, metadata=metadata or {})
        self.registry.writes.register(command, self.now_ms)
        self.store.changed(datum_key("public", service))

    def remove(self, service: str, ip: str) -> None:
        self.registry.writes.remove("public", service, instance_key(ip, 80, "DEFAULT"), self.now_ms)
        self.store.changed(datum_key("public", service))

    def tick(self, after_ms: int = FLUSH_MS) -> None:
        self.now_ms += after_ms
        self.wall_ms += after_ms
        while self.store.tick(self.now_ms) <= self.now_ms:
            self.slices += 1


@pytest.fixture
def first(tmp_path: Path) -> Iterator[Run]:
    """A run with instances in three services, written down."""
    run = Run(tmp_path)
    run.store.open()
    for number, service in enumerate(SERVICES):
        run.register(service, f"10.0.0.{number}")
    run.tick()
    yield run
    run.store.close(run.now_ms)


def ips(datums: list[Datum]) -> list[set[str]]:
    return [{stored.instance.ip for stored in datum.value.stored.values()} for datum in datums]


def test_the_next_run_has_what_was_there(tmp_path: Path, first: Run) -> None:
    """Without an orderly end: what a kill leaves."""
    datums = Run(tmp_path, first.wall_ms).load()
    assert ips(datums) == [{"10.0.0.0"}, {"10.0.0.1"}, {"10.0.0.2"}]
    assert [datum.version for datum in datums] == [first.registry.lists.version(datum.key) for datum in datums]


def test_times_count_from_when_a_list_was_written(tmp_path: Path, first: Run) -> None:
    """A removal that was told to others since then is later than what the file tells."""
    changed_ms = first.now_ms - FLUSH_MS
    first.tick(9_000)
    again = Run(tmp_path, first.wall_ms + 60_000)
    again.now_ms = first.now_ms + 60_000  # a clock that went on with the wall's, to compare
    for datum in again.load():
        assert [one.changed_ms for one in datum.value.stored.values()] == [changed_ms]


def test_after_the_clock_went_back_no_word_in_the_file_is_later_than_others(tmp_path: Path, first: Run) -> None:
    for datum in Run(tmp_path, first.wall_ms - 60_000).load():
        assert [one.changed_ms for one in datum.value.stored.values()] == [NEVER_MS]


def test_the_file_of_an_earlier_release_is_read_and_goes_on(tmp_path: Path, first: Run) -> None:
    first.store.close(first.now_ms)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("ALTER TABLE datum DROP COLUMN at_ms")
    second = Run(tmp_path, first.wall_ms)
    assert len(second.load()) == 3
    second.store.open()
    second.register(SERVICES[0], "10.0.1.1")
    second.tick()
    second.store.close(second.now_ms)
    third = Run(tmp_path, second.wall_ms)
    assert ips(third.load()) == [{"10.0.1.1"}, {"10.0.0.1"}, {"10.0.0.2"}]


def body_of(folder: Path, service: str) -> bytes:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        [[body]] = connection.execute("SELECT body FROM datum WHERE key = ?", [datum_key("public", service)])
    assert isinstance(body, bytes)
    return body


def is_packed(folder: Path, service: str) -> bool:
    return not body_of(folder, service).startswith(b"{")


def change_in_each_window(run: Run, service: str, windows: int = 3) -> None:
    for number in range(windows):
        run.register(service, "10.0.0.0", {"change": str(number)})
        run.tick(WINDOW_MS)


def test_a_list_that_changes_all_the_time_is_packed_when_it_stays(tmp_path: Path, first: Run) -> None:
    change_in_each_window(first, SERVICES[0])
    assert [is_packed(tmp_path, service) for service in SERVICES] == [False, True, True]
    [stored] = Run(tmp_path, first.wall_ms).load()[0].value.stored.values()
    assert stored.instance.metadata == {"change": "2"}
    first.tick(WINDOW_MS)
    assert is_packed(tmp_path, SERVICES[0])
    assert Run(tmp_path, first.wall_ms).load()[0].version == first.registry.lists.version(
        datum_key("public", SERVICES[0])
    )
    before = body_of(tmp_path, SERVICES[0])
    first.tick(WINDOW_MS)
    assert body_of(tmp_path, SERVICES[0]) == before


def test_an_orderly_end_packs_all_lists(tmp_path: Path, first: Run) -> None:
    change_in_each_window(first, SERVICES[0])
    first.register(SERVICES[0], "10.0.0.0", {"change": "last"})
    first.store.close(first.now_ms)
    assert all(is_packed(tmp_path, service) for service in SERVICES)


def test_a_long_list_is_always_packed(tmp_path: Path, first: Run) -> None:
    first.register(SERVICES[0], "10.0.1.1", {"long": "v" * UNPACKED_BYTES_MAX})
    change_in_each_window(first, SERVICES[0])
    assert is_packed(tmp_path, SERVICES[0])


def test_a_list_that_is_gone_while_it_changes_all_the_time_is_gone(tmp_path: Path, first: Run) -> None:
    change_in_each_window(first, SERVICES[0])
    key = datum_key("public", SERVICES[0])
    first.registry.upkeep.forget(key)
    first.store.changed(key)
    for _ in range(2):
        first.tick(WINDOW_MS)
        assert len(Run(tmp_path, first.wall_ms).load()) == 2


def test_removals_are_remembered(tmp_path: Path, first: Run) -> None:
    first.remove(SERVICES[1], "10.0.0.1")
    first.tick(WINDOW_MS)
    datums = Run(tmp_path, first.wall_ms).load()
    assert ips(datums) == [{"10.0.0.0"}, set(), {"10.0.0.2"}]
    assert datums[1].value.tombstones.keys() == {instance_key("10.0.0.1", 80, "DEFAULT")}


def test_many_lists_come_and_go_in_few_statements(tmp_path: Path, first: Run) -> None:
    """Of one flush and of its last, smaller batch none is lost."""
    names = [f"g@@many{number:03}" for number in range(2 * ROWS_PER_STATEMENT + 1)]
    for name in names:
        first.register(name, "10.0.2.1")
    first.store.close(first.now_ms)
    second = Run(tmp_path, first.wall_ms)
    assert len(second.load()) == len(SERVICES) + len(names)
    second.store.open()
    for name in names:
        second.store.changed(datum_key("public", name))  # unknown to this run's registry, so gone
    second.store.close(second.now_ms)
    assert len(Run(tmp_path, second.wall_ms).load()) == len(SERVICES)


def test_an_orderly_end_writes_the_rest(tmp_path: Path, first: Run) -> None:
    first.register(SERVICES[0], "10.0.1.1")
    first.store.close(first.now_ms)
    first.store.close(first.now_ms)
    assert ips(Run(tmp_path, first.wall_ms).load())[0] == {"10.0.0.0", "10.0.1.1"}


def test_what_was_forgotten_is_not_there(tmp_path: Path, first: Run) -> None:
    key = datum_key("public", SERVICES[2])
    first.registry.upkeep.forget(key)
    first.store.changed(key)
    first.tick(WINDOW_MS)
    assert len(Run(tmp_path, first.wall_ms).load()) == 2


class TestAge:
    def test_too_old_is_not_used(self, tmp_path: Path, first: Run) -> None:
        assert Run(tmp_path, first.wall_ms + AGE_MS_MAX + 1).load() == []
        assert len(Run(tmp_path, first.wall_ms + AGE_MS_MAX).load()) == 3

    def test_a_quiet_cluster_does_not_look_old(self, tmp_path: Path, first: Run) -> None:
        for _ in range(200):
            first.tick(5_000)  # 1,000 s without a change
        assert len(Run(tmp_path, first.wall_ms).load()) == 3

    def test_it_does_not_look_fresh_to_the_run_after_the_next(self, tmp_path: Path, first: Run) -> None:
        second = Run(tmp_path, first.wall_ms + AGE_MS_MAX + 1)
        assert second.load() == []
        second.store.open()
        second.tick()
        second.store.close(second.now_ms)
        assert Run(tmp_path, second.wall_ms).load() == []

    def test_a_clock_that_went_back_is_no_reason(self, tmp_path: Path, first: Run) -> None:
        assert len(Run(tmp_path, first.wall_ms - 3_600_000).load()) == 3


class TestDamaged:
    @pytest.mark.parametrize("content", [b"no database" * 1_000, b"\0" * 4_096, b"SQLite format 3\0" + b"\xff" * 5_000])
    def test_it_is_set_aside_and_named(
        self, tmp_path: Path, first: Run, caplog: pytest.LogCaptureFixture, content: bytes
    ) -> None:
        first.store.close(first.now_ms)
        (tmp_path / FILE_NAME).write_bytes(content)
        second = Run(tmp_path, first.wall_ms)
        with caplog.at_level(logging.WARNING):
            assert second.load() == []
        [aside] = tmp_path.glob("warm.damaged-*")
        assert aside.read_bytes() == content
        assert aside.name in caplog.text
        second.store.open()
        second.register(SERVICES[0], "10.0.0.9")
        second.tick()
        second.store.close(second.now_ms)
        assert ips(Run(tmp_path, second.wall_ms).load()) == [{"10.0.0.9"}]

    def test_pages_overwritten(self, tmp_path: Path, first: Run) -> None:
        for number in range(100):
            first.register(f"g@@more{number}", "10.0.0.1", {"k": str(number) * 200})
        first.tick()
        first.store.close(first.now_ms)
        data = bytearray((tmp_path / FILE_NAME).read_bytes())
        data[4_096:] = b"\xa5" * (len(data) - 4_096)
        (tmp_path / FILE_NAME).write_bytes(data)
        assert Run(tmp_path, first.wall_ms).load() == []
        assert list(tmp_path.glob("warm.damaged-*"))

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"no zlib",
            b"{no json",
            b"{}",
            "text",
            5,
            None,
            *map(zlib.compress, (b"[]", b'"version"', b"5", b"null")),
            b'{"claimed":"1.1.a:1~1","version":"2.0.b:1~1","digest":"0123456789abcdef"}',
            b'{"since":0,"version":"1.1.a:1~1","changed":[]}',
            b'{"value":{"instanceList":[]},"version":"1.%d.a:1~1"}' % (2**53 - 1),
            b'{"value":{"instanceList":[]},"version":"1000000000000000.1.a:1~1"}',
        ],
    )
    def test_one_list_that_cannot_be_read_is_left_out_alone(
        self, tmp_path: Path, first: Run, body: object, caplog: pytest.LogCaptureFixture
    ) -> None:
        first.store.close(first.now_ms)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            connection.execute("CREATE TABLE other AS SELECT * FROM datum")
            connection.execute("DROP TABLE datum")
            connection.execute("ALTER TABLE other RENAME TO datum")
            connection.execute("UPDATE datum SET body = ? WHERE key = ?", (body, datum_key("public", SERVICES[1])))
            connection.commit()
        second = Run(tmp_path, first.wall_ms)
        with caplog.at_level(logging.WARNING):
            assert ips(second.load()) == [{"10.0.0.0"}, {"10.0.0.2"}]
        assert "is left out" in caplog.text
        assert second.store.unread == 1

    def test_one_key_that_is_no_text_is_left_out_alone(self, tmp_path: Path, first: Run) -> None:
        first.store.close(first.now_ms)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            key = datum_key("public", SERVICES[1])
            connection.execute("UPDATE datum SET key = CAST(x'ff61' AS TEXT) WHERE key = ?", (key,))
            connection.commit()
        second = Run(tmp_path, first.wall_ms)
        assert ips(second.load()) == [{"10.0.0.0"}, {"10.0.0.2"}]
        assert second.store.unread == 1

    def test_a_folder_in_which_nothing_can_be_renamed(
        self, tmp_path: Path, first: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        first.store.close(first.now_ms)
        (tmp_path / FILE_NAME).write_bytes(b"no database" * 1_000)

        def refuse(_path: Path, _target: Path) -> Path:
            raise OSError("read-only")

        monkeypatch.setattr(Path, "rename", refuse)
        with caplog.at_level(logging.WARNING):
            assert Run(tmp_path, first.wall_ms).load() == []
        assert "nor renamed" in caplog.text

    def test_an_empty_file(self, tmp_path: Path) -> None:
        (tmp_path / FILE_NAME).touch()
        assert Run(tmp_path).load() == []

    def test_a_time_that_is_none(self, tmp_path: Path, first: Run) -> None:
        first.store.close(first.now_ms)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            connection.execute("UPDATE alive SET at_ms = 'yesterday'")
            connection.commit()
        assert Run(tmp_path, first.wall_ms).load() == []


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert Run(tmp_path).load() == []


def test_a_folder_that_takes_nothing_costs_warmth_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(tmp_path / "missing")
    with caplog.at_level(logging.WARNING):
        run.store.open()
    assert "cannot be written" in caplog.text
    run.register(SERVICES[0], "10.0.0.1")
    run.tick()
    run.store.close(run.now_ms)


def test_a_folder_that_takes_files_later_gets_what_changed_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(tmp_path / "missing")
    run.store.open()
    for at in range(3):
        run.register(SERVICES[at], "10.0.0.1")
        run.tick()
    failed = run.store.writes_failed
    assert 1 <= failed <= 2, "each attempt, and these are rare"
    assert caplog.text.count("cannot be written") == 1
    (tmp_path / "missing").mkdir()
    run.tick(REOPEN_MS)
    run.tick()
    assert run.store.writes_failed == failed
    assert "accepts instance lists again" in caplog.text
    run.store.close(run.now_ms)
    assert len(Run(tmp_path / "missing", run.wall_ms).load()) == 3


class TestFullDisk:
    def test_what_was_not_taken_is_written_later(self, tmp_path: Path, first: Run) -> None:
        connection = first.store._connection
        assert connection is not None
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        for number in range(300):
            first.register(f"g@@more{number}", "10.0.0.1", {"k": str(number) * 100})
        first.tick()
        assert first.store.writes_failed == 1
        connection.execute("PRAGMA max_page_count = 1073741823")
        first.tick()
        assert len(Run(tmp_path, first.wall_ms).load()) == 303

    def test_it_does_not_keep_a_member_from_stopping(self, first: Run) -> None:
        connection = first.store._connection
        assert connection is not None
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        for number in range(300):
            first.register(f"g@@more{number}", "10.0.0.1", {"k": str(number) * 100})
        first.store.close(first.now_ms)


def fill(run: Run, service: str, count: int) -> None:
    for number in range(count):
        run.register(service, f"10.1.{number // 250}.{number % 250}", {"k": "x" * 100})


def test_a_large_list_that_changes_all_the_time_is_written_seldom(tmp_path: Path, first: Run) -> None:
    seconds = 3
    fill(first, SERVICES[0], seconds * UNITS_PER_S)
    first.tick()
    first.register(SERVICES[0], "10.2.0.1")
    first.tick()
    assert "10.2.0.1" not in ips(Run(tmp_path, first.wall_ms).load())[0]
    first.tick(seconds * 1_000)
    assert "10.2.0.1" in ips(Run(tmp_path, first.wall_ms).load())[0]


def test_what_changed_first_is_written_first_though_others_change_all_the_time(tmp_path: Path, first: Run) -> None:
    """One list a flush, of three that change all the time: each has its turn in each window."""
    for service in SERVICES:
        fill(first, service, UNITS_PER_S // 2)
    for turn in range(9):
        for service in SERVICES:
            first.register(service, f"10.3.0.{turn}")
        first.tick()
    ticks_behind = [
        9 - sum(ip.startswith("10.3.") for ip in found) for found in ips(Run(tmp_path, first.wall_ms).load())
    ]
    assert max(ticks_behind) <= WINDOW_MS // FLUSH_MS
    assert len(set(ticks_behind)) == len(SERVICES)


def test_a_list_that_changes_all_the_time_is_written_once_in_a_window(tmp_path: Path, first: Run) -> None:
    seen = [0]
    for turn in range(3 * WINDOW_MS // FLUSH_MS):
        first.register(SERVICES[0], f"10.4.0.{turn}")
        first.tick()
        seen.append(sum(ip.startswith("10.4.") for ip in ips(Run(tmp_path, first.wall_ms).load())[0]))
    assert len(set(seen)) == 1 + 3, seen
    first.tick(WINDOW_MS)
    assert len(ips(Run(tmp_path, first.wall_ms).load())[0]) == len(seen)


def test_a_large_list_is_made_in_slices(first: Run) -> None:
    fill(first, SERVICES[0], 2_000)
    first.tick(WINDOW_MS)
    assert first.slices >= 4, "of some 500 instances each"


def test_the_end_waits_for_nothing(tmp_path: Path, first: Run) -> None:
    for service in SERVICES:
        fill(first, service, 2 * UNITS_PER_S)
    first.store.tick(first.now_ms + FLUSH_MS)  # a slice of one
    first.register(SERVICES[0], "10.2.0.1")
    first.store.close(first.now_ms)
    found = ips(Run(tmp_path, first.wall_ms).load())
    assert [len(one) for one in found] == [2 * UNITS_PER_S + 2, 2 * UNITS_PER_S + 1, 2 * UNITS_PER_S + 1]


class CountingCodec(InstanceListCodec):
    """Counts the lists that it reads; the ``failing``-th one it cannot, for a reason that nobody foresaw."""

    def __init__(self, failing: int = 0) -> None:
        super().__init__(lambda: 0)
        self.read: list[str] = []
        self.failing = failing

    def decode(self, key: str, body: Mapping[str, Any], now_ms: int, version: Version | None = None) -> Datum:
        self.read.append(key)
        if len(self.read) == self.failing:
            raise MemoryError
        return super().decode(key, body, now_ms, version)


def second_run(first: Run, folder: Path, codec: CountingCodec) -> WarmStore:
    first.store.close(first.now_ms)
    return WarmStore(folder, codec, first.registry.lists.datums, lambda: first.wall_ms)


def test_a_list_is_made_when_it_is_asked_for_and_not_if_it_is_known_by_then(first: Run, tmp_path: Path) -> None:
    codec = CountingCodec()
    store = second_run(first, tmp_path, codec)
    loaded: dict[str, Version] = {}
    datums = store.load(AGE_MS_MAX, first.now_ms, lambda key, version: loaded.get(key) == version)
    assert codec.read == []
    keys = [next(datums).key]
    loaded.update(first.registry.lists.versions())  # from another member, meanwhile
    [known, other] = [key for key in loaded if key not in keys]
    loaded[other] = loaded[other].next("b:1~1")
    assert [datum.key for datum in datums] == [other], f"{known} is there in the same version"
    assert codec.read == [*keys, other]


def test_what_the_next_run_writes_does_not_change_what_it_takes_over(first: Run, tmp_path: Path) -> None:
    store = second_run(first, tmp_path, CountingCodec())
    datums = store.load(AGE_MS_MAX, first.now_ms)
    store.open()
    for service in SERVICES:
        first.registry.writes.empty("public", service, first.now_ms)
        store.changed(datum_key("public", service))
    store.close(first.now_ms)
    assert sorted(one for found in ips(list(datums)) for one in found) == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


def test_a_list_that_fails_for_a_reason_that_nobody_foresaw_fails_alone(first: Run, tmp_path: Path) -> None:
    datums = second_run(first, tmp_path, CountingCodec(failing=2)).load(AGE_MS_MAX, first.now_ms)
    next(datums)
    with pytest.raises(MemoryError):
        next(datums)
    assert len(list(datums)) == 1
