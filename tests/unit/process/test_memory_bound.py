"""The watch of the memory: where the bound comes from, and the levels with their hysteresis."""

from pathlib import Path

import pytest

from app.machine.process.memory_bound import MIB, MemoryWatch, cgroup_bytes, resident_bytes

V1, V2 = "9:memory:/docker/a\n1:name=systemd:/x\n", "0::/system.slice/rollcall.service\n"


def groups(tmp_path: Path, cgroup: str, limits: dict[str, str]) -> int:
    """The bound that is read from such files; ``limits``: text by path below the root of the groups."""
    for path, text in limits.items():
        file = tmp_path / "fs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "cgroup").write_text(cgroup)
    return cgroup_bytes(tmp_path / "cgroup", tmp_path / "fs")


@pytest.mark.parametrize(
    ("cgroup", "limits", "bound"),
    [
        (V2, {"system.slice/rollcall.service/memory.max": "1000\n", "system.slice/memory.max": "max\n"}, 1_000),
        (V2, {"system.slice/rollcall.service/memory.max": "1000\n", "system.slice/memory.max": "500\n"}, 500),
        (V2, {"memory.max": "700\n"}, 700),
        (V2, {"system.slice/rollcall.service/memory.max": "max\n"}, 0),
        (V1, {"memory/docker/a/memory.limit_in_bytes": "800\n"}, 800),
        (V1, {"memory/memory.limit_in_bytes": "900\n"}, 900),
        (V1, {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0),
        (V1 + V2, {"memory/docker/a/memory.limit_in_bytes": "800\n", "memory.max": "600\n"}, 600),
        ("0::/../..\n", {"memory.max": "300\n"}, 300),
        ("nonsense\n", {"memory.max": "300\n"}, 0),
        (V2, {"memory.max": "3e5\n"}, 0),
    ],
)
def test_the_least_limit_of_the_control_groups_is_the_bound(
    tmp_path: Path, cgroup: str, limits: dict[str, str], bound: int
) -> None:
    assert groups(tmp_path, cgroup, limits) == bound


def test_no_control_groups_are_no_bound(tmp_path: Path) -> None:
    assert cgroup_bytes(tmp_path / "none", tmp_path) == 0
    assert resident_bytes(tmp_path / "none") == 0


def test_this_process_uses_some_memory() -> None:
    assert 10 * MIB < resident_bytes() < 1 << 40


def test_levels_begin_at_their_parts_and_end_below_them(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []
    used_mb = [84, 85, 81, 86, 92, 88, 86, 81, 79, 84, 95, 10]
    readings = iter(used_mb)
    watch = MemoryWatch(100, told.append, lambda: next(readings) * MIB, lambda: 1)
    seen = []
    for _ in used_mb:
        assert watch.tick(5_000) == 6_000
        seen.append(watch.level)
    assert seen == [0, 1, 1, 1, 2, 2, 1, 1, 0, 0, 2, 0]
    assert told == [1, 2, 1, 0, 2, 0], "only changes are told"
    assert watch.counters() == {
        "limit_memory_level": 0,
        "limit_memory_used_bytes": 10 * MIB,
        "limit_memory_bound_bytes": 100 * MIB,
    }
    assert "85 of 100 MiB are in use: new services are refused" in caplog.text


def test_without_a_bound_nothing_is_refused() -> None:
    told: list[int] = []
    watch = MemoryWatch(0, told.append, lambda: 1 << 50, lambda: 0)
    watch.tick(0)
    assert (watch.level, told) == (0, [])


def test_the_setting_comes_before_the_control_group() -> None:
    assert MemoryWatch(3, lambda _level: None, of_cgroup=lambda: 5).bound_bytes == 3 * MIB
    assert MemoryWatch(0, lambda _level: None, of_cgroup=lambda: 5).bound_bytes == 5
