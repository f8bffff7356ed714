"""The secret of the first administrator: its file, when it comes and goes, and who gives the right one."""

import os
import stat
from pathlib import Path

import pytest

from app.auth.refusals import TooManyLogins
from app.auth.setup_secret import CHECK_MS, RETRY_MS, WINDOW_MS, WRONG_MAX, SetupSecret
from app.naming.model.nacos_errors import NoRight

STRANGER = "10.9.9.9"


class Bed:
    def __init__(self, folder: Path) -> None:
        self.has_admin, self.serves, self.now_ms = False, True, 5_000_000
        self.setup = SetupSecret(folder, lambda: self.has_admin, lambda: self.serves, lambda: self.now_ms)
        self.path = folder / "first-admin.secret"

    def tick(self) -> int:
        return self.setup.tick(self.now_ms) - self.now_ms

    def is_right(self, given: str) -> bool:
        try:
            self.setup.check(given, STRANGER)
        except (NoRight, TooManyLogins):
            return False
        return True


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_the_file_is_its_owners_alone_and_has_the_secret(bed: Bed) -> None:
    assert bed.tick() == CHECK_MS
    text = bed.path.read_text()
    assert stat.S_IMODE(bed.path.stat().st_mode) == 0o600
    assert len(text.strip()) >= 43
    assert bed.is_right(text.strip())
    assert [one.name for one in bed.path.parent.iterdir()] == [bed.path.name]
    bed.tick()
    assert bed.path.read_text() == text, "it stays while nobody used it"


def test_each_run_has_another_and_the_file_of_an_earlier_one_is_replaced(bed: Bed, tmp_path: Path) -> None:
    bed.path.write_text("planted")
    bed.path.chmod(0o666)
    bed.tick()
    first = bed.path.read_text()
    assert "planted" not in first
    assert stat.S_IMODE(bed.path.stat().st_mode) == 0o600
    again = Bed(tmp_path)
    again.tick()
    assert again.path.read_text() != first
    assert not again.is_right(first.strip())


def test_a_link_in_its_place_leads_nowhere(bed: Bed, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    bed.path.symlink_to(other)
    bed.path.with_name("first-admin.secret.new").symlink_to(other)
    bed.tick()
    assert not bed.path.is_symlink()
    assert other.read_text() == "kept"


@pytest.mark.parametrize("what", ["gone", "changed", "longer", "no text", "a link", "a pipe"])
def test_a_secret_ends_when_its_file_is_gone_or_changed(bed: Bed, tmp_path: Path, what: str) -> None:
    bed.tick()
    secret = bed.path.read_text().strip()
    bed.path.unlink()
    match what:
        case "changed":
            bed.path.write_text(secret[:-1] + "\n")
        case "longer":
            bed.path.write_text(secret + "x" * 100_000)
        case "no text":
            bed.path.write_bytes(b"\xff\0" * 50)
        case "a link":
            (tmp_path / "other").write_text(secret)
            bed.path.symlink_to(tmp_path / "other")
        case "a pipe":
            os.mkfifo(bed.path)
        case _:
            pass
    assert bed.tick() == CHECK_MS
    assert not bed.is_right(secret)
    assert bed.is_right(bed.path.read_text().strip())
    assert not bed.path.is_symlink()


def test_a_folder_in_its_place_leaves_no_secret(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    bed.tick()
    secret = bed.path.read_text().strip()
    bed.path.unlink()
    bed.path.mkdir()
    assert bed.tick() == RETRY_MS
    assert not bed.is_right(secret)
    assert "cannot be written: Is a directory" in caplog.text
    bed.path.rmdir()
    assert bed.tick() == CHECK_MS
    assert bed.is_right(bed.path.read_text().strip())


def test_it_ends_when_there_is_an_administrator(bed: Bed) -> None:
    bed.tick()
    secret = bed.path.read_text().strip()
    bed.has_admin = True
    assert bed.tick() == RETRY_MS
    assert not bed.path.exists()
    assert not bed.is_right(secret)
    assert not bed.is_right("")


def test_a_file_that_was_left_is_removed_where_there_is_an_administrator(bed: Bed) -> None:
    bed.path.write_text("left")
    bed.has_admin = True
    bed.tick()
    assert not bed.path.exists()


@pytest.mark.parametrize("given", ["", " ", "x", "\udc80", "ü" * 43, "x" * 100_000])
def test_nothing_else_is_right(bed: Bed, given: str) -> None:
    assert not bed.is_right(given), "before there is one"
    bed.tick()
    assert not bed.is_right(given)


def test_many_wrong_ones_are_told_to_wait_and_the_right_one_never(bed: Bed) -> None:
    bed.tick()
    for _ in range(WRONG_MAX):
        with pytest.raises(NoRight):
            bed.setup.check("x", STRANGER)
    bed.now_ms += WINDOW_MS - 1_000
    with pytest.raises(TooManyLogins) as caught:
        bed.setup.check("x", STRANGER)
    assert caught.value.retry_after_s == 2
    assert bed.is_right(bed.path.read_text().strip())
    bed.now_ms += 1_000
    with pytest.raises(NoRight):
        bed.setup.check("x", STRANGER)


def test_the_log_names_the_file_and_never_the_secret(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    bed.serves = False
    bed.tick()
    assert caplog.text == "", "other members may have an administrator"
    bed.serves = True
    bed.tick()
    bed.tick()
    (line,) = [one.getMessage() for one in caplog.records]
    assert str(bed.path) in line
    for _ in range(3):
        assert not bed.is_right("a-wrong-one")
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 2, "once a minute"
    assert STRANGER in lines[1]
    assert bed.setup.value not in caplog.text
    assert "a-wrong-one" not in caplog.text


def test_a_folder_that_cannot_be_written_is_said_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bed = Bed(tmp_path / "missing")
    assert bed.tick() == RETRY_MS
    assert "cannot be written" in caplog.text
    (tmp_path / "missing").mkdir()
    bed.tick()
    assert bed.is_right(bed.path.read_text().strip())
