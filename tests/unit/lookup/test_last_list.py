from pathlib import Path

from app.members.last_list import NAME, LastList

MEMBERS = ("10.0.0.1:8848", "[fd00::1]:8848")


def test_what_was_written_is_read_at_the_next_start(tmp_path: Path) -> None:
    LastList(tmp_path).write(MEMBERS)
    assert LastList(tmp_path).read() == MEMBERS
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_without_one_or_with_another_thing_there_is_none(tmp_path: Path) -> None:
    assert LastList(tmp_path).read() == ()
    (tmp_path / NAME).write_bytes(b"\x00\xff")
    assert LastList(tmp_path).read() == ()
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    assert LastList(tmp_path).read() == ()


def test_a_disk_that_does_not_take_it(tmp_path: Path) -> None:
    last = LastList(tmp_path / "missing")
    last.write(MEMBERS)
    assert last.writes_failed == 1
