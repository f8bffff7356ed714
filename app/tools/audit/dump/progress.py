"""The progress bar of a dump."""

from threading import Lock
from typing import TextIO

from tqdm import tqdm


class _Bar(tqdm):  # type: ignore[misc]  # tqdm comes without types
    monitor_interval = 0
    """The setting by which tqdm starts no thread beside the bar."""


class ProgressBar:
    """A bar of the rows of a round so far, and of the members that are done. Thread-safe.

    ``wanted`` None: on a terminal only.
    """

    def __init__(self, file: TextIO, wanted: bool | None) -> None:
        self._file = file
        self._shown = file.isatty() if wanted is None else wanted
        self._lock = Lock()
        self._bar: _Bar | None = None
        self._members = self._done = 0

    def begin(self, number: int, members: int) -> None:
        """Start the bar of a round of so many members."""
        with self._lock:
            self.close()
            self._members, self._done = members, 0
            self._bar = _Bar(
                desc=f"round {number}", unit=" rows", unit_scale=True, file=self._file, disable=not self._shown
            )

    def rows(self, count: int) -> None:
        """Add to the number of rows; a negative count takes back those of a member that is asked anew."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(count)

    def member_done(self) -> None:
        """Count one more member as done, dumped or absent."""
        with self._lock:
            self._done += 1
            if self._bar is not None:
                self._bar.set_postfix_str(f"{self._done} of {self._members} members")

    def close(self) -> None:
        """End the bar of the round under way."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()
