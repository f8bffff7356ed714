"""Files of lines: order, rotation, privacy, and what a full disk or a full queue costs."""

import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import pytest

from app.metrics import line_file
from app.metrics.line_file import TEXT_CHARS_MAX, VALUES_MAX, LineFile
from tests.support.processes import eventually


def make(path: Path, bytes_max: int = 1_000_000, files: int = 3) -> LineFile:
    return LineFile("test", path, bytes_max, files, lambda count: f"lost {count}")


def test_lines_come_in_order_and_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    file = make(path)
    for number in range(2_000):
        file.add(lambda number=number: f"line {number}")  # type: ignore[misc]
    assert file.stop(10)
    assert path.read_text().splitlines() == [f"line {number}" for number in range(2_000)]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert file.stats.written == 2_000
    assert file.stop(1), "twice"


def test_no_thread_runs_before_the_first_line(tmp_path: Path) -> None:
    before = threading.active_count()
    file = make(tmp_path / "a.log")
    assert threading.active_count() == before
    assert file.stop(1)
    assert not (tmp_path / "a.log").exists()


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    file = make(tmp_path / "a.log", bytes_max=60_000, files=3)
    for number in range(5_000):
        file.add(lambda number=number: f"{number:099}")  # type: ignore[misc]
    assert file.stop(10)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"a.log", "a.log.1", "a.log.2"}
    assert max(sizes.values()) <= 60_000
    assert (tmp_path / "a.log").read_text().splitlines()[-1] == f"{4_999:099}"


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "a.log", tmp_path / "moved"
    file = make(path)
    file.add(lambda: "first")
    eventually(lambda: file.stats.written == 1)
    path.rename(moved)
    file.add(lambda: "second")
    assert file.stop(10)
    assert (moved.read_text(), path.read_text()) == ("first\n", "second\n")


def test_a_disk_that_takes_nothing_costs_lines_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    file = make(folder / "a.log")
    for _ in range(3):
        file.add(lambda: "lost")
    eventually(lambda: file.stats.dropped == 3)
    assert file.stats.writes_failed == 1
    assert "does not accept lines" in caplog.text
    folder.unlink()
    file.add(lambda: "after")
    assert file.stop(10)
    assert (folder / "a.log").read_text() == "lost 3\nafter\n"


def test_a_write_that_fails_half_way_is_not_written_later(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("only Linux has /dev/full")
    path = tmp_path / "a.log"
    path.symlink_to(full)
    file = make(path)
    file.add(lambda: "x" * 100_000)
    eventually(lambda: file.stats.writes_failed == 1)
    path.unlink()
    file.add(lambda: "after")
    assert file.stop(10)
    assert path.read_text() == "lost 1\nafter\n"


def test_a_full_queue_drops_and_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "VALUES_MAX", 2)
    monkeypatch.setattr(line_file, "WAITING_MAX", 2)
    monkeypatch.setattr(LineFile, "_start", lambda _file: None)
    file = make(tmp_path / "a.log")
    for number in range(5):
        file.add(lambda number=number: str(number))  # type: ignore[misc]
    monkeypatch.undo()
    file._start()
    assert file.stop(10)
    assert (tmp_path / "a.log").read_text() == "lost 3\n0\n1\n"
    assert (file.stats.written, file.stats.dropped) == (2, 3)


def test_what_waits_for_a_hanging_disk_is_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that wait hold the values that they tell of: of many large ones only few wait as they came."""
    hangs, goes_on = threading.Event(), threading.Event()
    lines = make(tmp_path / "audit.log", bytes_max=1 << 30)
    write = lines._file.write

    def write_when_the_disk_goes_on(text: str) -> OSError | None:
        hangs.set()
        goes_on.wait(10)
        return write(text)

    monkeypatch.setattr(lines._file, "write", write_when_the_disk_goes_on)
    lines.add("first")
    assert hangs.wait(10)
    living = list[ref[Values]]()
    for number in range(3 * VALUES_MAX):
        values = Values(number)
        living.append(ref(values))
        lines.add(values.line)
        del values
    assert sum(one() is not None for one in living) == VALUES_MAX
    assert lines.stats.dropped == 0

    for _ in range(2 * TEXT_CHARS_MAX // (1 << 16)):
        lines.add("x" * (1 << 16))
    assert lines.stats.dropped > TEXT_CHARS_MAX // (1 << 16) * 0.9, "half of them did not fit"
    told = lines.stats.dropped
    goes_on.set()
    assert lines.stop(10)
    text = (tmp_path / "audit.log").read_text().splitlines()
    assert [line for line in text if line.startswith("value")] == [f"value {n}" for n in range(3 * VALUES_MAX)]
    assert f"lost {told}" in text


def test_after_a_disk_that_hung_there_is_room_for_texts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_file, "VALUES_MAX", 2)
    monkeypatch.setattr(line_file, "TEXT_CHARS_MAX", 100)
    monkeypatch.setattr(LineFile, "_start", lambda _file: None)
    file = make(tmp_path / "a.log")
    for number in range(3):
        for letter in "abc":
            file.add(letter * 60)
        assert file.stats.dropped == number, "there is room for one text beyond the first two"
        file.add("d" * 60)
        assert file.stats.dropped == number + 1
        file._write_all()
    file._file.close()
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert lines.count("c" * 60) == 3
    assert lines.count("lost 1") == 3


class Values:
    """A large value, and the line that tells of it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def line(self) -> str:
        return f"value {self.number}"


def test_lines_that_come_while_others_are_written_wait_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written as they come, each would be a write of its own."""
    monkeypatch.setattr(LineFile, "_start", lambda _file: None)
    file = make(tmp_path / "a.log")

    def line_and_the_next(number: int) -> str:
        file.add(lambda: line_and_the_next(number + 1))
        return str(number)

    file.add("a text")
    file.add(lambda: line_and_the_next(1))
    for _ in range(3):
        file._write_all()
    file._file.close()
    assert (tmp_path / "a.log").read_text() == "a text\n1\n2\n3\n"


def test_no_level_silences_it(tmp_path: Path) -> None:
    logging.disable(logging.CRITICAL)
    try:
        file = make(tmp_path / "a.log")
        file.add(lambda: "said")
        assert file.stop(10)
    finally:
        logging.disable(logging.NOTSET)
    assert (tmp_path / "a.log").read_text() == "said\n"


def test_a_line_that_cannot_be_made_costs_itself_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = make(tmp_path / "a.log")
    file.add(lambda: str(1 // 0))
    file.add(lambda: "said")
    assert file.stop(10)
    assert (tmp_path / "a.log").read_text() == "said\n"
    assert "could not be made" in caplog.text
    shutil.rmtree(tmp_path)
    assert not os.path.exists(tmp_path)


def test_the_event_loop_makes_its_lines_itself_once_its_turn_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, makers, turns = make(tmp_path / "a.log"), list[threading.Thread](), list[Callable[[], None]]()

    def line() -> str:
        makers.append(threading.current_thread())
        return "said"

    file.make_on_loop(turns.append)
    for one in (line, lambda: str(1 // 0), line):
        file.add_on_loop(one)
    assert (makers, len(turns)) == ([], 1), "one call for all lines of a turn"
    turns.pop()()
    assert makers == [threading.current_thread()] * 2
    assert "could not be made" in caplog.text
    file.add_on_loop(line)
    assert len(turns) == 1
    file.make_on_loop(None)  # the loop ends without another turn
    assert len(makers) == 3
    file.add_on_loop(lambda: "by the thread")
    assert file.stop(10)
    assert (tmp_path / "a.log").read_text().splitlines() == ["said"] * 3 + ["by the thread"]


def test_another_thread_than_the_loop_hands_its_lines_to_that_of_the_file(tmp_path: Path) -> None:
    file, turns = make(tmp_path / "a.log"), list[Callable[[], None]]()
    file.make_on_loop(turns.append)
    other = threading.Thread(target=file.add_on_loop, args=(lambda: "said",))
    other.start()
    other.join(10)
    assert file.stop(10)
    assert (turns, (tmp_path / "a.log").read_text()) == ([], "said\n")
