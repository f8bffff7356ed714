"""The script of the image that creates the first administrator: once, when the member serves, never over another."""

import importlib.util
import os
import stat
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.shipped import DEPLOY

SCRIPT = DEPLOY / "docker" / "first_admin.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.delitem(sys.modules, "healthcheck", raising=False)
    spec = importlib.util.spec_from_file_location("first_admin", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class World:
    """A member's data folder, a mounted Secret, and a command `rollcall` that answers as it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.secret, self.commands = folder / "data", folder / "secret", folder / "bin"
        for one in (self.data, self.secret, self.commands):
            one.mkdir()
        (self.secret / "username").write_text("ann\n")
        (self.secret / "password").write_text("correct horse")
        self.waiting = self.data / "first-admin.secret"
        self.waiting.touch()
        self.calls = folder / "calls"
        monkeypatch.setenv("PATH", f"{self.commands}:{os.environ['PATH']}")
        monkeypatch.setenv("ROLLCALL_DATA_DIR", str(self.data))
        self.said: list[str] = []
        self.waited: list[float] = []

    def answers(self, line: str) -> None:
        """Have the command run this line of a shell."""
        command = self.commands / "rollcall"
        command.write_text(f'#!/bin/sh\necho "$@" >>{self.calls}\n{line}\n')
        command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_it_is_created_when_the_member_serves(script: ModuleType, world: World) -> None:
    world.answers(f"rm {world.waiting}")
    serving = iter([False, False, True])
    script.run(world.secret, world.said.append, lambda: next(serving), world.waited.append)
    assert world.called() == [f"admin --user ann --password-file {world.secret / 'password'}"]
    assert world.said == ["created the first administrator"]
    assert len(world.waited) == 2


def test_nothing_is_done_where_there_is_an_administrator(script: ModuleType, world: World) -> None:
    world.waiting.unlink()
    world.answers("exit 1")
    script.run(world.secret, world.said.append, lambda: True, world.waited.append)
    assert (world.called(), world.said, world.waited) == ([], [], [])


def test_another_member_may_be_first(script: ModuleType, world: World) -> None:
    """The call is refused, and the member removes the file."""
    world.answers(f'rm {world.waiting}; echo "answers 409" >&2; exit 1')
    script.run(world.secret, world.said.append, lambda: True, world.waited.append)
    assert len(world.called()) == 1
    assert world.said == []


def test_a_refusal_is_reported_once_and_tries_end(script: ModuleType, world: World) -> None:
    world.answers('echo "password too short" >&2; exit 1')
    script.run(world.secret, world.said.append, lambda: True, world.waited.append)
    assert world.said[0] == "the first administrator was not created: password too short"
    assert world.said[1].startswith("gave up creating the first administrator after 900 s")
    assert len(world.said) == 2
    assert sum(world.waited) >= 900
    assert len(world.called()) < 40


def test_a_folder_without_a_name_is_reported(script: ModuleType, world: World) -> None:
    (world.secret / "username").unlink()
    script.run(world.secret, world.said.append, lambda: True, world.waited.append)
    assert "no username in" in world.said[0]


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_the_exit_code_is_never_one_that_ends_the_member(
    script: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "log_line", lambda _text: None)
    assert script.main(arguments) == 0


def test_the_command_returns_while_it_still_waits(
    script: ModuleType, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(folder: Path, _say: object) -> None:
        (folder / "begun").touch()

    monkeypatch.setattr(script, "run", wait)
    assert script.main([str(world.secret)]) == 0
    pid, status = os.wait()
    assert (pid > 0, status) == (True, 0)
    deadline = time.monotonic() + 10
    while not (world.secret / "begun").exists():
        assert time.monotonic() < deadline
