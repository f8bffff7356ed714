"""What is said and counted of the machine: once when a fault begins, once when it is over."""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.machine.process import machine_watch
from app.machine.process.machine_watch import CLOCK_STEP_MS, LOOK_MS, MachineWatch

MIB = 1024 * 1024


class Machine:
    """A machine that the test changes."""

    def __init__(self) -> None:
        self.wall_ms = 1_000_000_000
        self.now_ms = 5_000
        self.open_error = 0
        self.disk_error = 0
        self.disk = SimpleNamespace(f_bavail=1_000, f_frsize=MIB, f_blocks=2_000, f_flag=0)

    def open(self, *_: object) -> int:
        if self.open_error:
            raise OSError(self.open_error, "no")
        return os.dup(0)

    def statvfs(self, _: Path) -> SimpleNamespace:
        if self.disk_error:
            raise OSError(self.disk_error, os.strerror(self.disk_error))
        return self.disk


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    replaced = SimpleNamespace(**{name: getattr(os, name) for name in ("close", "devnull", "O_RDONLY", "O_CLOEXEC")})
    replaced.open, replaced.statvfs, replaced.ST_RDONLY = made.open, made.statvfs, os.ST_RDONLY
    monkeypatch.setattr(machine_watch, "os", replaced)
    return made


@pytest.fixture
def look(machine: Machine, caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    """Lets so many ms pass, looks, and returns what was logged."""
    watch = MachineWatch(Path("/data"), lambda: machine.wall_ms)
    caplog.set_level(logging.INFO)

    def pass_and_look(passed_ms: int) -> list[str]:
        caplog.clear()
        machine.now_ms += passed_ms
        machine.wall_ms += passed_ms
        assert watch.tick(machine.now_ms) == machine.now_ms + LOOK_MS
        return [record.getMessage() for record in caplog.records]

    pass_and_look.stats = watch.stats  # type: ignore[attr-defined]
    return pass_and_look


def test_a_sound_machine_is_not_spoken_of(machine: Machine, look: Callable[[int], list[str]]) -> None:
    assert look(0) == []
    assert look(1_000) == []
    assert look(10 * 60_000) == [], "a pause moves both clocks"
    machine.wall_ms += CLOCK_STEP_MS - 1
    assert look(1_000) == [], "nor is a clock that is slewed"
    stats = look.stats  # type: ignore[attr-defined]
    assert (stats.wall_clock_steps, stats.descriptors_used_up, stats.disk_low, stats.disk_readonly) == (0, 0, 0, 0)
    assert stats.disk_free_bytes == 1_000 * MIB


@pytest.mark.parametrize(("step_ms", "way"), [(3_600_000, "forward"), (-3_600_000, "back"), (CLOCK_STEP_MS, "forward")])
def test_a_wall_clock_that_is_set(machine: Machine, look: Callable[[int], list[str]], step_ms: int, way: str) -> None:
    look(0)
    machine.wall_ms += step_ms
    [line] = look(1_000)
    assert f"set {way} by {abs(step_ms) / 1_000:.1f} s" in line
    assert look(1_000) == []
    stats = look.stats  # type: ignore[attr-defined]
    assert (stats.wall_clock_steps, stats.wall_clock_step_ms) == (1, step_ms)


@pytest.mark.parametrize(("number", "whose"), [(errno.EMFILE, "this process"), (errno.ENFILE, "the machine")])
def test_descriptors_that_are_used_up(
    machine: Machine, look: Callable[[int], list[str]], number: int, whose: str
) -> None:
    machine.open_error = number
    [line] = look(0)
    assert f"all descriptors of {whose} are used up" in line
    assert look(1_000) == [], "said once"
    machine.open_error = 0
    assert look(1_000) == ["file descriptors are free again"]
    assert look(1_000) == []
    assert look.stats.descriptors_used_up == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"f_bavail": 63}, "nearly full"),
        ({"f_bavail": 4, "f_blocks": 100}, "nearly full"),
        ({"f_flag": os.ST_RDONLY}, "read-only"),
        ({"f_flag": os.ST_RDONLY, "f_bavail": 0}, "read-only"),
    ],
)
def test_a_disk_that_is_low_or_read_only(
    machine: Machine, look: Callable[[int], list[str]], change: dict[str, int], said: str
) -> None:
    look(0)
    sound = dict(vars(machine.disk))
    vars(machine.disk).update(change)
    [line] = look(1_000)
    assert said in line
    assert "/data" in line
    assert look(1_000) == []
    stats = look.stats  # type: ignore[attr-defined]
    assert stats.disk_low == ("f_bavail" in change)
    assert stats.disk_readonly == ("f_flag" in change)
    vars(machine.disk).update(sound)
    [line] = look(1_000)
    assert "has room again" in line
    assert (stats.disk_low, stats.disk_readonly) == (0, 0)


def test_a_small_disk_is_not_low_for_being_small(machine: Machine, look: Callable[[int], list[str]]) -> None:
    machine.disk.f_blocks, machine.disk.f_bavail = 100, 6
    assert look(0) == []


def test_a_disk_that_cannot_be_looked_at(machine: Machine, look: Callable[[int], list[str]]) -> None:
    machine.disk_error = errno.EIO
    [line] = look(0)
    assert "cannot be inspected: Input/output error" in line
    assert look.stats.disk_free_bytes == -1  # type: ignore[attr-defined]
    assert look(1_000) == []
