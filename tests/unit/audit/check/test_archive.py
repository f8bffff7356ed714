"""The class-data archive: where it is, and when Java may use it."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check import archive
from app.tools.audit.check.archive import NoArchive, archive_options, make_archive
from app.tools.audit.check.java import JavaChoice
from app.tools.audit.format.layout import read_night


@pytest.fixture(autouse=True)
def without_a_nightly_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "STATE", "/nonexistent")


@pytest.fixture
def chosen(tmp_path: Path) -> JavaChoice:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    return JavaChoice(java, 21, "JAVA_HOME", tmp_path / "home")


def placed(environ: dict[str, str], chosen: JavaChoice) -> Path:
    path = archive._path(environ, chosen)
    assert path is not None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(b"classes")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"ROLLCALL_AUDIT_STATE": "/s", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/s/java"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/rollcall"),
        ({"HOME": "/h"}, "/h/.cache/rollcall"),
    ],
)
def test_it_is_in_a_folder_of_this_user(environ: dict[str, str], place: str, chosen: JavaChoice) -> None:
    path = archive._path(environ, chosen)
    assert path is not None
    assert str(path.parent) == place


@pytest.mark.parametrize("environ", [{}, {"HOME": "/with space"}, {"HOME": "/with:colon"}])
def test_without_a_fit_folder_there_is_none(environ: dict[str, str], chosen: JavaChoice) -> None:
    assert archive_options(environ, chosen) == []
    with pytest.raises(NoArchive):
        make_archive(environ | {"PATH": "/nonexistent"})


def test_it_is_used_once_it_is_there(tmp_path: Path, chosen: JavaChoice) -> None:
    environ = {"HOME": str(tmp_path)}
    assert archive_options(environ, chosen) == []
    path = placed(environ, chosen)
    assert f"-XX:SharedArchiveFile={path}" in archive_options(environ, chosen)
    base = path.with_suffix(".base")
    base.write_bytes(b"classes of Java itself")
    assert f"-XX:SharedArchiveFile={base}:{path}" in archive_options(environ, chosen)


def test_one_that_others_can_change_is_not_used(tmp_path: Path, chosen: JavaChoice) -> None:
    environ = {"HOME": str(tmp_path)}
    path = placed(environ, chosen)
    path.chmod(0o666)
    assert archive_options(environ, chosen) == []
    path.chmod(0o600)
    path.parent.chmod(0o777)
    assert archive_options(environ, chosen) == []


def test_the_folder_of_the_nightly_run_is_the_first(
    tmp_path: Path, chosen: JavaChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "STATE", str(tmp_path / "state"))
    environ = {"HOME": str(tmp_path / "home")}
    assert placed(environ, chosen).parent == tmp_path / "home" / ".cache" / "rollcall"
    (tmp_path / "state").mkdir()
    assert placed(environ, chosen).parent == tmp_path / "state" / "java"


def test_another_java_has_another(tmp_path: Path, chosen: JavaChoice) -> None:
    environ = {"HOME": str(tmp_path)}
    placed(environ, chosen)
    chosen.java.write_text("#!/bin/sh\n# newer\nexit 1\n")
    assert archive_options(environ, chosen) == []


def test_while_one_is_made_none_is_used(tmp_path: Path, chosen: JavaChoice) -> None:
    environ = {"HOME": str(tmp_path)}
    placed(environ, chosen)
    assert archive_options(environ | {"SPARK_SUBMIT_OPTS": "-XX:ArchiveClassesAtExit=/x"}, chosen) == []


def test_the_night_that_is_made_up_is_a_whole_one(tmp_path: Path) -> None:
    archive._write_night(tmp_path)
    night = read_night(str(tmp_path))
    assert [len(one.manifest.members) for one in night.rounds] == [2, 2]
    assert night.notes == []
