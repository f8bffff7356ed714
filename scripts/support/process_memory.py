"""The memory of processes of this machine, from /proc. Linux only."""

from collections.abc import Iterable
from pathlib import Path

FORGET_PEAK = "5"
"""Written to ``clear_refs``, it resets the peak to the current use. Source: proc_pid_clear_refs(5)."""


def rss_mb(pid: int) -> float:
    """The resident memory of one process, shared pages in full."""
    return _status_mb(pid, "VmRSS:")


def peak_mb(pids: Iterable[int]) -> float:
    """The sum of the peaks of all processes, ever or since ``forget_peak``, as the kernel recorded them."""
    return sum(_status_mb(pid, "VmHWM:") for pid in pids)


def forget_peak(pids: Iterable[int]) -> None:
    """Make ``peak_mb`` count from now on."""
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text(FORGET_PEAK, encoding="ascii")


def _status_mb(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
