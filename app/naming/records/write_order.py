"""The order of durable writes: the turns in which they are decided, and the groups in which they go to the disk."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Event, Lock, get_ident

from app.naming.model.nacos_errors import StorageError
from app.naming.records.record import Record, RecordDisk


@dataclass(eq=False, slots=True)
class _Turn:
    names: frozenset[str]
    ahead: int = 0
    """The number of its names in which an earlier turn has not ended."""
    begins: Event = field(default_factory=Event)


class WriteTurns:
    """Turns at names, each name's in the order of the requests.

    A turn at several names requests all of them at once and waits only for earlier turns, so no two turns wait for each
    other. Turns that share no name continue side by side.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, deque[_Turn]] = {}
        """By name: the turn that has it, and behind it those that wait."""
        self._threads: set[int] = set()
        """The threads that have a turn, or wait for one."""

    @contextmanager
    def at(self, names: Iterable[str]) -> Iterator[None]:
        """Wait until all earlier turns at these names have ended. Later ones wait for the end of the body.

        Raises:
            RuntimeError: this thread already has a turn, and would wait for itself.
        """
        turn = _Turn(frozenset(names))
        with self._lock:
            if get_ident() in self._threads:
                raise RuntimeError("a handler of a durable write must not write a record: it would wait for itself")
            self._threads.add(get_ident())
            for name in turn.names:
                queue = self._queues.setdefault(name, deque())
                turn.ahead += bool(queue)
                queue.append(turn)
            waits = turn.ahead > 0
        if waits:
            turn.begins.wait()
        try:
            yield
        finally:
            self._end(turn)

    def _end(self, turn: _Turn) -> None:
        with self._lock:
            self._threads.discard(get_ident())
            for name in turn.names:
                queue = self._queues[name]
                queue.popleft()
                if not queue:
                    del self._queues[name]
                    continue
                following = queue[0]
                following.ahead -= 1
                if following.ahead == 0:
                    following.begins.set()


@dataclass(eq=False, slots=True)
class _Write:
    records: list[Record]
    check: Callable[[], None]
    is_received: bool = False
    is_tried: bool = False
    is_written: bool = False
    error: Exception | None = None
    is_first: Event = field(default_factory=Event)

    def may_go(self) -> bool:
        """Return whether its own check still allows the write. Runs on another thread, and keeps its errors."""
        try:
            self.check()
        except Exception as error:
            self.error = error
            return False
        return True


class GroupCommit:
    """The queue in front of the disk. The first thread writes for all that wait behind it, with one wait for the disk.

    Each then continues alone, in the order of the queue: the consequences of a durable write, which readers and other
    members see, come before those of all later writes. No lock is held during the write, so the queue accepts further
    writes. It has at most as many entries as there are threads that write.
    """

    def __init__(self, disk: RecordDisk, offset_ms: Callable[[], int]) -> None:
        """``offset_ms``: returns the wall clock minus the monotonic one, which the disk needs."""
        self._disk = disk
        self._offset_ms = offset_ms
        self._lock = Lock()
        self._line: deque[_Write] = deque()

    @contextmanager
    def written(self, records: list[Record], check: Callable[[], None], *, is_received: bool = False) -> Iterator[None]:
        """Write records to the disk; the body is the consequence.

        ``is_received``: another member has them on its disk, so the consequence need not wait for this one. The caller
        calls ``sync`` before it says that this member has them.

        ``check``: called in the caller's context just before the disk is, which may be later than this call; raises
        if the write may no longer be done.

        Raises:
            StorageError: the disk took none of it.
            And the errors of ``check``, and of ``write`` for these records.
        """
        write = _Write(records, _in_this_context(check), is_received)
        with self._first_in_line(write):
            if not write.is_tried:
                self._try_line()
            if not write.is_written:
                raise write.error or StorageError("the write was aborted, because its thread ended")
            yield

    def sync(self) -> None:
        """Return when received records that are written would survive the end of the machine.

        Raises:
            StorageError: the disk failed.
        """
        self._disk.sync()

    @contextmanager
    def deleted(self, keys: list[str]) -> Iterator[None]:
        """Delete keys from the disk; the body is the consequence.

        Raises:
            StorageError: the disk took none of it.
        """
        with self._first_in_line(_Write([], check=_nothing, is_tried=True)):
            self._disk.delete(keys)
            yield

    @contextmanager
    def _first_in_line(self, write: _Write) -> Iterator[None]:
        with self._lock:
            self._line.append(write)
            waits = len(self._line) > 1
        if waits:
            write.is_first.wait()
        try:
            yield
        finally:
            with self._lock:
                self._line.popleft()
                following = self._line[0] if self._line else None
            if following is not None:
                following.is_first.set()

    def _try_line(self) -> None:
        """Write for all that wait in the queue and may still be written."""
        with self._lock:
            group = [one for one in self._line if not one.is_tried]
        for one in group:
            one.is_tried = True
        self._try([one for one in group if one.may_go()])

    def _try(self, group: list[_Write]) -> None:
        """Write a group. If one of its records cannot be written, the others do not fail with it."""
        if not group:
            return
        try:
            write = self._disk.write_received if all(one.is_received for one in group) else self._disk.write
            write([record for one in group for record in one.records], self._offset_ms())
        except Exception as error:
            if len(group) > 1 and not isinstance(error, StorageError):
                for one in group:
                    self._try([one])
                return
            for one in group:
                one.error = error
            return
        for one in group:
            one.is_written = True


def _in_this_context(check: Callable[[], None]) -> Callable[[], None]:
    """Return the check as a call that any thread may make: it sees the context variables of this thread."""
    context = copy_context()
    return lambda: context.run(check)


def _nothing() -> None:
    """Check nothing."""
