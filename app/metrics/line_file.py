"""A file of lines that a thread writes: callers never wait for the disk, and a full disk blocks no caller."""

import logging
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG = logging.getLogger(__name__)
WAITING_MAX = 20_000
"""The most lines that wait for the thread: about a second of a node's highest rate."""
VALUES_MAX = 4_000
"""The most lines that wait as the functions that make them, with the values that they tell of, which may be large.

More wait only while the disk hangs: these wait as texts.
"""
TEXT_CHARS_MAX = 16 << 20
"""The most characters of such texts."""
LINES_PER_WRITE = 5_000
LINE_BYTES_MAX = 16_384
"""The length that nearly all lines keep. As many are written at once as keep the file within its bound."""
WRITE_EVERY_S = 0.2
"""Each call to the system gives up the interpreter. The thread then waits for it next to a busy loop, which costs both
more than everything else here: few calls, for many lines."""
LOG_EVERY = 1_000
"""One in this many failed writes is logged, beginning with the first."""
FOLDER_MODE, FILE_MODE = 0o700, 0o600

MakeLine = Callable[[], str]
"""Makes one line, without its end."""
Line = str | MakeLine


@dataclass(slots=True)
class LineStats:
    """Lines since the start."""

    written: int = 0
    dropped: int = 0
    """Lines that were lost because the queue was full or the disk refused them."""
    writes_failed: int = 0


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read."""
    return os.open(path, flags, FILE_MODE)


class _RotatingFile(RotatingFileHandler):
    """The rotating file of logging: reports failures, and opens a new file if the old one was moved away."""

    def __init__(self, path: Path, bytes_max: int, files: int) -> None:
        super().__init__(path, maxBytes=bytes_max, backupCount=files - 1, encoding="utf-8", delay=True)
        self.failure: OSError | None = None
        self._size = 0
        """The size of the open file before the current write."""
        self._opened: tuple[int, int] | None = None
        """The device and number of the open file."""
        self.setFormatter(logging.Formatter("%(message)s"))

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=_open_private)

    def write(self, text: str) -> OSError | None:
        """Write whole lines. Return the error if that failed."""
        self.failure = None
        self._follow()
        if self.stream is None:
            with suppress(OSError):  # the write below reports it
                Path(self.baseFilename).parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self.emit(logging.LogRecord("rollcall.audit", logging.INFO, "", 0, text, None, None))
        return self.failure

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Return whether these lines would make a file that is not empty too long. The name is logging's."""
        if self.stream is None:
            self.stream = self._open()
            opened = os.fstat(self.stream.fileno())
            self._opened, self._size = (opened.st_dev, opened.st_ino), opened.st_size
        return bool(self._size) and self._size + len(record.msg) + 1 > self.maxBytes

    def handleError(self, record: logging.LogRecord) -> None:
        """Note the failure, and begin again with the next lines. The name is logging's."""
        error = sys.exception()
        self.failure = error if isinstance(error, OSError) else OSError(str(error))
        self._let_go()

    def _let_go(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError, ValueError):  # writing the buffered bytes fails again
                stream.close()

    def _follow(self) -> None:
        """Open the file again if it was moved or removed, as external log rotation does."""
        if self.stream is None:
            return
        try:
            there = os.stat(self.baseFilename)
        except OSError:
            self._let_go()
            return
        if self._opened != (there.st_dev, there.st_ino) or not stat.S_ISREG(there.st_mode):
            self._let_go()
        self._size = there.st_size


class LineFile:
    """A bounded queue of lines, and the thread that writes them. The thread starts with the first line."""

    def __init__(
        self,
        name: str,
        path: Path,
        bytes_max: int,
        files: int,
        lost_line: Callable[[int], str],
        before_writes: Callable[[], None] = lambda: None,
    ) -> None:
        """``lost_line``: makes the line that reports the number of lines dropped before it.

        ``before_writes``: called before each round of writes, even if no line waits; may add lines.
        """
        self._before_writes = before_writes
        self.stats = LineStats()
        self._name = name
        self._path = path
        self._file = _RotatingFile(path, bytes_max, files)
        self._lines_per_write = max(min(LINES_PER_WRITE, bytes_max // LINE_BYTES_MAX), 1)
        self._lost_line = lost_line
        self._waiting: deque[Line] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._text_chars = 0
        """The characters of the texts that wait, beyond ``VALUES_MAX`` lines. Guarded by the lock."""
        self.add_on_loop: Callable[[MakeLine], None] = self.add
        """Schedule a line as ``add`` does; on the event loop, the line is made when its turn has ended.

        The thread of the file would compete with a busy loop for the interpreter, and keep the content of the line in
        memory until then: that costs several times as much as the line.
        """
        self._fresh: deque[MakeLine] = deque()
        """The lines of this turn of the event loop. Only its thread adds to them."""
        self._untold = 0
        """Dropped lines that no line has reported yet."""
        self.unmade = 0
        """Dropped lines whose text was never made."""

    def add(self, line: Line) -> None:
        """Schedule a line, or the function that makes it, to be written. Returns at once. For any thread."""
        if len(self._waiting) >= VALUES_MAX or self._stopped.is_set():
            self._add_text(line)
            return
        self._waiting.append(line)
        if self._thread is None:
            self._start()

    def make_on_loop(self, soon: Callable[[Callable[[], None]], object] | None) -> None:
        """Let the event loop, whose thread calls this, make the lines of ``add_on_loop`` itself; with None no longer.

        ``soon``: calls a function in the loop's next turn, as ``loop.call_soon`` does.
        """
        self._make_fresh()
        if soon is None:
            self.add_on_loop = self.add
            return
        self.add_on_loop = partial(self._add_fresh, soon, threading.get_ident())

    def _add_fresh(self, soon: Callable[[Callable[[], None]], object], loop_thread: int, make: MakeLine) -> None:
        if threading.get_ident() != loop_thread:
            self.add(make)
            return
        self._fresh.append(make)
        if len(self._fresh) == 1:
            soon(self._make_fresh)

    def _make_fresh(self) -> None:
        while self._fresh:
            if (text := self._made(self._fresh.popleft())) is not None:
                self.add(text)

    def _add_text(self, line: Line) -> None:
        text = None if len(self._waiting) >= WAITING_MAX or self._stopped.is_set() else self._made(line)
        with self._lock:
            if text is not None and self._text_chars + len(text) <= TEXT_CHARS_MAX:
                self._text_chars += len(text)
                self._waiting.append(text)
                return
            self.stats.dropped += 1
            self._untold += 1
            self.unmade += text is None

    def _made(self, line: Line) -> str | None:
        try:
            return line if isinstance(line, str) else line()
        except Exception:
            LOG.exception("a line of %s could not be made", self._path)
            return None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"log-{self._name}", daemon=False)
                self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines, end the thread.

        Return whether that took under ``timeout_s``. May be called twice.
        """
        self._make_fresh()
        with self._lock:
            self._stopped.set()
            thread = self._thread
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()

    # --- on the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.wait(WRITE_EVERY_S):
            self._before_writes()
            self._write_all()
        self._write_all()
        self._file.close()

    def _write_all(self) -> None:
        # Lines that arrive in the meantime wait for the next round: one by one they would cost a hundred times as much.
        with self._lock:
            left, text_chars = len(self._waiting), self._text_chars
        while left:
            count = min(left, self._lines_per_write)
            self._write([self._waiting.popleft() for _ in range(count)])
            left -= count
        with self._lock:
            self._text_chars -= text_chars

    def _write(self, waiting: list[Line]) -> None:
        untold, lines = self._untold, list[str]()
        if untold:
            lines.append(self._lost_line(untold))
        lines += [made for line in waiting if (made := self._made(line)) is not None]
        error = self._file.write("\n".join(lines))
        if error is None:
            self.stats.written += len(waiting)
            self._untold -= untold
            return
        self.stats.dropped += len(waiting)
        self._untold += len(waiting)
        if self.stats.writes_failed % LOG_EVERY == 0:
            LOG.warning("%s does not accept lines, which are lost: %s", self._path, error)
        self.stats.writes_failed += 1
