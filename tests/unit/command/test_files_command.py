"""``rollcall files``: what is written, and what stays as it is."""

from pathlib import Path

import pytest

from app.tools.cli import main
from app.tools.command.files_command import files_folder

COUNT = 32


def test_the_files_of_the_package_are_written_and_scripts_can_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "made" / "deploy"
    assert main(["files", "deploy", str(target)]) == 0
    source = files_folder()
    written = {path.relative_to(target) for path in target.rglob("*") if path.is_file()}
    assert len(written) >= COUNT
    assert all((target / name).read_bytes() == (source / name).read_bytes() for name in written)
    assert (target / "nightly.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "rollcall.service").stat().st_mode & 0o777 == 0o644
    assert capsys.readouterr().out == f"{len(written)} files are in {target}\n"
    assert main(["files", "deploy", str(target)]) == 0, "the same again changes nothing"


def test_a_file_that_was_edited_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rollcall.service").write_text("mine")
    assert main(["files", "deploy", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"rollcall files: {tmp_path} has other content in rollcall.service: ")
    assert [path.name for path in tmp_path.iterdir()] == ["rollcall.service"]
    assert main(["files", "deploy", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "rollcall.service").read_text() != "mine"


def test_a_place_that_is_no_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "docker").write_text("mine")
    (tmp_path / "nightly.sh").mkdir()
    assert main(["files", "deploy", str(tmp_path / "file")]) == 2
    assert main(["files", "deploy", str(tmp_path)]) == 2
    (tmp_path / "nightly.sh").rmdir()
    assert main(["files", "deploy", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"rollcall files: {tmp_path / 'file'} is not a folder: name another one"
    assert lines[1] == f"rollcall files: {tmp_path / 'nightly.sh'} is not a file: name another folder"
    assert lines[2].endswith(f": {tmp_path / 'docker'}")


def test_an_unknown_set_of_files_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["files", "deplyo", "x"])
    assert "deploy" in capsys.readouterr().err
