"""The SQLite store of durable records: what it keeps, what it refuses, and what it says of a file it cannot use."""

import resource
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from app.config.settings_keys import SettingError
from app.machine.storage import record_file
from app.machine.storage.record_file import FILE_NAME, RecordFile, unread_records
from app.naming.model.nacos_errors import InvalidParam, StorageError
from app.naming.records.record import Record
from app.naming.records.record_keys import namespace_key, service_meta_key
from app.naming.records.records import Records
from distro.model.types import Version


def record(name: str, counter: int = 1, value: dict[str, object] | None = None) -> Record:
    version = Version(1, counter, "a:1~1")
    return Record(namespace_key(name), version, version, value, 1_700_000_000_000 + counter)


def named(name: str) -> dict[str, object]:
    return {"name": name, "description": ""}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RecordFile]:
    opened = RecordFile(tmp_path)
    opened.open()
    yield opened
    opened.close()


def copied(folder: Path) -> RecordFile:
    """Return what a kill at this moment would leave of the file in a folder."""
    copy = folder / "copy"
    copy.mkdir()
    for path in folder.glob(f"{FILE_NAME}*"):
        (copy / path.name).write_bytes(path.read_bytes())
    again = RecordFile(copy)
    again.open()
    return again


@contextmanager
def full_disk(file: RecordFile) -> Iterator[None]:
    """Let the file grow no more, as on a full disk."""
    connection = file._open_connection()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    connection.execute("PRAGMA max_page_count = 1073741823")


class TestKeeps:
    def test_what_was_written(self, tmp_path: Path, file: RecordFile) -> None:
        records = [record("a", 1, {"name": "ä", "description": "", "x": [1, 2.5, None]}), record("b", 2, None)]
        file.write(records, 0)
        file.close()
        again = RecordFile(tmp_path)
        again.open()
        assert sorted(again.read_all(0), key=lambda one: one.key) == records
        again.close()

    @pytest.mark.parametrize(("changed_ms", "read_ms"), [(5_000, 4_700), (-5_000, -5_300), (None, None)])
    def test_when_it_was_said_by_the_wall_clock(
        self, file: RecordFile, changed_ms: int | None, read_ms: int | None
    ) -> None:
        """The monotonic clock of the next run may have begun anew: its distance to the wall clock is another one."""
        file.write([replace(record("a"), changed_ms=changed_ms)], 1_700_000_000_000)
        assert [one.changed_ms for one in file.read_all(1_700_000_000_300)] == [read_ms]

    def test_the_last_state_of_a_key(self, file: RecordFile) -> None:
        file.write([record("a", 1, named("1"))], 0)
        file.write([record("a", 2, named("2"))], 0)
        assert list(file.read_all(0)) == [record("a", 2, named("2"))]

    def test_nothing_of_what_was_deleted(self, file: RecordFile) -> None:
        file.write([record("a"), record("b", 2)], 0)
        file.delete([namespace_key("a")])
        assert [one.key for one in file.read_all(0)] == [namespace_key("b")]

    def test_a_commit_without_a_close(self, tmp_path: Path, file: RecordFile) -> None:
        """What a kill leaves: the log beside the file, which the next one to open it takes over."""
        file.write([record("a", 1, named("1"))], 0)
        again = copied(tmp_path)
        assert len(list(again.read_all(0))) == 1
        again.close()

    def test_received_records_wait_for_the_disk_in_a_sync_alone(
        self, tmp_path: Path, file: RecordFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[int] = []
        monkeypatch.setattr(record_file, "SYNC", waits.append)
        file.write_received([record("a", 1, named("1"))], 0)
        copy = copied(tmp_path)
        assert [one.key for one in copy.read_all(0)] == [namespace_key("a")], "they survive the end of the process"
        copy.close()
        assert not waits
        file.sync()
        file.sync()
        assert len(waits) == 1
        file.write_received([record("a", 2, named("2"))], 0)
        file.write([record("b", 3, named("3"))], 0)
        file.sync()
        assert len(waits) == 1, "the log was confirmed as a whole"

    def test_a_sync_waits_for_one_that_is_under_way(self, file: RecordFile, monkeypatch: pytest.MonkeyPatch) -> None:
        begun, may_end = Event(), Event()

        def slow(_file: int) -> None:
            begun.set()
            assert may_end.wait(10.0)

        monkeypatch.setattr(record_file, "SYNC", slow)
        file.write_received([record("a", 1, named("1"))], 0)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(file.sync)
            assert begun.wait(10.0)
            second = pool.submit(file.sync)
            file.write_received([record("b", 2, named("2"))], 0)
            assert not wait([first, second], 0.05).done
            may_end.set()
            first.result(10.0)
            second.result(10.0)

    def test_the_log_of_received_records_is_checkpointed_after_a_sync_and_never_before_a_push(
        self, tmp_path: Path, file: RecordFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(record_file, "SYNC", lambda _file: None)
        log = tmp_path / f"{FILE_NAME}-wal"
        big = [record(f"r{number}", 1, named("x" * 60_000)) for number in range(20)]
        sizes = []
        for _ in range(10):
            file.write_received(big, 0)
            sizes.append(log.stat().st_size)
            file.sync()
        assert sizes[0] > 1_000_000
        assert max(sizes) < record_file.CHECKPOINT_BYTES + 4_000_000, "a checkpoint lets the log begin anew"
        for _ in range(5):
            file.write_received(big, 0)
        assert log.stat().st_size > max(sizes), "a write makes none"

    def test_a_sync_that_fails_is_tried_again(self, file: RecordFile, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_file: int) -> None:
            raise OSError("the disk is broken")

        file.write_received([record("a", 1, named("1"))], 0)
        monkeypatch.setattr(record_file, "SYNC", fail)
        for _ in range(2):
            with pytest.raises(StorageError, match="the disk is broken"):
                file.sync()


class TestFull:
    def test_all_or_none_of_a_change(self, file: RecordFile) -> None:
        file.write([record("a", 1, named("1"))], 0)
        big = [record("a", 2, named("2")), record("b", 2, named("x" * 60_000))]
        with (
            full_disk(file),
            pytest.raises(StorageError, match=r"does not accept the change: database or disk is full"),
        ):
            file.write(big, 0)
        assert list(file.read_all(0)) == [record("a", 1, named("1"))]
        file.write(big, 0)
        assert len(list(file.read_all(0))) == 2

    def test_memory_is_not_ahead_of_the_disk(self, file: RecordFile) -> None:
        changes: list[Record] = []
        records = Records("a:1~1", file, lambda: 1, lambda: 1, changes.append)
        records.put_all({"rollcall.namespace.a": lambda _old: named("a")})
        with full_disk(file), pytest.raises(StorageError) as raised:
            records.put_all({"rollcall.namespace.a": lambda _old: named("x" * 60_000)})
        assert raised.value.status == 507
        assert records.value("rollcall.namespace.a") == named("a")
        assert [change.value for change in changes] == [named("a")]

    def test_a_file_that_may_not_grow(self, tmp_path: Path, file: RecordFile) -> None:
        """Real writes fail, as with a quota."""
        file.write([record("a", 1, named("1"))], 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(p.stat().st_size for p in tmp_path.iterdir()), hard))
        try:
            with pytest.raises(StorageError, match="does not accept the change"):
                file.write([record("b", 1, named("x" * 1_000_000))], 0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(file.read_all(0)) == [record("a", 1, named("1"))]
        file.write([record("b", 1, named("x" * 1_000_000))], 0)

    def test_a_member_starts_on_a_disk_that_is_full(self, tmp_path: Path, file: RecordFile) -> None:
        file.write([record("a", 1, named("1"))], 0)
        file.close()
        before = (tmp_path / FILE_NAME).read_bytes()
        file.open()
        assert len(list(file.read_all(0))) == 1
        file.close()
        assert (tmp_path / FILE_NAME).read_bytes() == before, "an open that changes nothing writes nothing"


class TestDamaged:
    def fill(self, folder: Path) -> Path:
        file = RecordFile(folder)
        file.open()
        file.write([record(f"n{number}", 1, named("x" * 500)) for number in range(200)], 0)
        file.close()
        return folder / FILE_NAME

    @pytest.mark.parametrize("content", [b"no database at all" * 100, b"\0" * 4096])
    def test_no_database(self, tmp_path: Path, content: bytes) -> None:
        path = self.fill(tmp_path)
        path.write_bytes(content)
        with pytest.raises(SettingError, match=FILE_NAME):
            RecordFile(tmp_path).open()
        assert path.read_bytes() == content, "it is left as it is"

    def test_pages_overwritten(self, tmp_path: Path) -> None:
        path = self.fill(tmp_path)
        data = bytearray(path.read_bytes())
        data[8192:40960] = b"\xa5" * (40960 - 8192)
        path.write_bytes(data)
        with pytest.raises(SettingError, match=r"is damaged \(.+\); move it away to let this member load"):
            RecordFile(tmp_path).open()

    def test_cut_short(self, tmp_path: Path) -> None:
        path = self.fill(tmp_path)
        path.write_bytes(path.read_bytes()[:20_000])
        with pytest.raises(SettingError, match=FILE_NAME):
            RecordFile(tmp_path).open()

    @pytest.mark.parametrize(
        ("column", "wrong"),
        [
            ("version", "x"),
            ("version", "0.1.a:1~1"),
            ("version", f"1.{2**53 - 1}.a:1~1"),
            ("version", f"{2**53 - 1}.1.a:1~1"),
            ("version", "1000000000000000.1.a:1~1"),
            ("version", b"1.1.a:1~1"),
            ("changed", ""),
            ("changed", "1.2.a:1~1"),
            ("value", b"{"),
            ("value", b"[]"),
            ("value", b'{"name": 1, "description": ""}'),
            ("value", b'{"name": "", "description": "", "x": %b}' % (b"[" * 300 + b"]" * 300)),
            ("value", "{}"),
            ("changed_wall_ms", "soon"),
            ("changed_wall_ms", -1),
            ("changed_wall_ms", 2**53),
            ("changed_here_ms", "soon"),
            ("changed_here_ms", -1),
            ("key", "rollcall.namespace.a b"),
            ("key", b"rollcall.namespace.n7"),
            ("key", "com.alibaba.nacos.naming.domains.meta.public##DEFAULT_GROUP@@a$b"),
            ("key", "rollcall.instance.public##DEFAULT_GROUP@@a/b##1.1.1.1:80:unknown:DEFAULT"),
        ],
    )
    def test_a_row_that_cannot_be_read_is_set_aside(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, wrong: object
    ) -> None:
        path = self.fill(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            [before] = connection.execute("SELECT * FROM record WHERE key = ?", (namespace_key("n7"),)).fetchall()
        names = ["key", "version", "changed", "value", "changed_wall_ms", "changed_here_ms"]
        changed = tuple(wrong if name == column else value for name, value in zip(names, before, strict=True))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE record SET {column} = ? WHERE key = ?", (wrong, namespace_key("n7")))
            connection.commit()
        assert [one.key for one in unread_records(tmp_path)] == [changed[0]]
        for start in range(2):
            file = RecordFile(tmp_path)
            file.open()
            assert {one.key for one in file.read_all(0)} == {namespace_key(f"n{at}") for at in range(200) if at != 7}
            assert file.set_aside == 1
            file.close()
            assert ("is set aside" in caplog.text) is (start == 0), "named once, at the start that found it"
            caplog.clear()
        with closing(sqlite3.connect(path)) as connection:
            [kept] = connection.execute(f"SELECT {', '.join(names)} FROM set_aside").fetchall()
        assert kept == changed, "nothing that was stored is lost"
        assert [one.key for one in unread_records(tmp_path)] == [changed[0]]

    def test_a_key_that_is_no_text_is_set_aside(self, tmp_path: Path) -> None:
        path = self.fill(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE record SET key = CAST(x'ff61' AS TEXT) WHERE key = ?", (namespace_key("n7"),))
            connection.commit()
        file = RecordFile(tmp_path)
        file.open()
        assert len(list(file.read_all(0))) == 199
        file.close()
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT CAST(key AS BLOB) FROM set_aside").fetchall() == [(b"\xffa",)]

    def test_a_full_disk_leaves_the_rows_where_they_are(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = self.fill(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE record SET version = 'x'")
            connection.commit()
        file = RecordFile(tmp_path)
        file.open()
        with full_disk(file):
            assert list(file.read_all(0)) == []
        assert "stay where they are" in caplog.text
        assert caplog.text.count("cannot be read and is set aside: ") == 100
        assert "100 more records" in caplog.text
        assert len(list(file.read_all(0))) == 0
        file.close()
        assert len(unread_records(tmp_path)) == 200

    def test_a_file_of_the_format_before(self, tmp_path: Path) -> None:
        path = self.fill(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("ALTER TABLE record DROP COLUMN changed_here_ms")
            connection.execute("PRAGMA user_version = 1")
            connection.execute("UPDATE record SET version = 'x' WHERE key = ?", (namespace_key("n7"),))
            connection.commit()
        file = RecordFile(tmp_path)
        file.open()
        assert len(list(file.read_all(0))) == 199
        file.close()
        assert [one.key for one in unread_records(tmp_path)] == [namespace_key("n7")]

    def test_nothing_is_unread_without_a_file(self, tmp_path: Path) -> None:
        assert unread_records(tmp_path) == []
        (tmp_path / FILE_NAME).write_bytes(b"no database" * 1_000)
        with pytest.raises(SettingError, match="cannot be read"):
            unread_records(tmp_path)

    def test_what_json_cannot_hold_is_refused(self, file: RecordFile) -> None:
        with pytest.raises(InvalidParam, match="cannot be kept"):
            file.write([record("a", 1, named("\ud800"))], 0)
        assert list(file.read_all(0)) == []

    def test_of_a_later_release(self, tmp_path: Path) -> None:
        path = self.fill(tmp_path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 3")
        with pytest.raises(SettingError, match="later release"):
            RecordFile(tmp_path).open()


class TestEarlierFormat:
    """Files without the time by this member's clock: the writer's stands for it."""

    def fill(self, folder: Path) -> None:
        file = RecordFile(folder)
        file.open()
        file.write([record("a", 1, named("1")), record("b", 2)], 0)
        file.close()
        with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            connection.execute("ALTER TABLE record DROP COLUMN changed_here_ms")
            connection.execute("PRAGMA user_version = 1")
            connection.commit()

    def test_is_read_and_brought_to_the_present_one_by_the_first_write(self, tmp_path: Path) -> None:
        self.fill(tmp_path)
        for _ in range(2):
            file = RecordFile(tmp_path)
            file.open()
            times = {one.key: one.changed_ms for one in file.read_all(1_700_000_000_000)}
            assert times == {namespace_key("a"): 1, namespace_key("b"): 2}
            file.close()
        file.open()
        file.write([replace(record("c", 3), changed_ms=7)], 1_700_000_000_000)
        times = {one.key: one.changed_ms for one in file.read_all(1_700_000_000_000)}
        assert times == {namespace_key("a"): 1, namespace_key("b"): 2, namespace_key("c"): 7}
        file.close()
        file.open()
        file.delete([namespace_key("a"), namespace_key("c")])
        assert list(file.read_all(0)) == [record("b", 2)]
        file.close()

    def test_is_read_from_a_full_disk_and_stays_whole(self, tmp_path: Path) -> None:
        self.fill(tmp_path)
        file = RecordFile(tmp_path)
        file.open()
        with full_disk(file), pytest.raises(StorageError, match="full"):
            file.write([record("c", 3, named("x" * 60_000))], 0)
        assert list(file.read_all(0)) == [record("a", 1, named("1")), record("b", 2)]
        file.write([record("c", 3, named("x" * 60_000))], 0)
        assert len(list(file.read_all(0))) == 3
        file.close()


def test_a_closed_file_takes_nothing(file: RecordFile) -> None:
    file.close()
    file.close()
    with pytest.raises(StorageError, match="this member stops"):
        file.write([record("a")], 0)


def test_passwords_of_an_earlier_release_are_gone_from_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "app.machine.storage.record_file")

    def described(password: str) -> dict[str, object]:
        checker = {"type": "MYSQL", "user": "u", "pwd": password, "cmd": "select 1"}
        cluster = {"healthChecker": checker, "checkPort": 80, "useInstancePort": True, "metadata": {}}
        return {"protectThreshold": 0.5, "metadata": {}, "selector": {"type": "none"}, "clusters": {"DEFAULT": cluster}}

    version = Version(1, 1, "a:1~1")
    key = service_meta_key("public", "DEFAULT_GROUP@@a")
    old = Record(key, version, version, described("geheim"), 1_700_000_000_001, 5_000)
    file = RecordFile(tmp_path)
    file.open()
    file.write([old, record("b", 2, named("b"))], 0)
    assert list(file.read_all(0)) == [replace(old, value=described("")), record("b", 2, named("b"))]
    assert b"geheim" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    file.close()
    again = RecordFile(tmp_path)
    again.open()
    caplog.clear()
    assert next(again.read_all(0)) == replace(old, value=described(""))
    again.close()
    assert not caplog.records
