"""The rounds of a dump: all members at the same time, twice, and a manifest for each round."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Lock
from typing import Any, TextIO

from tqdm import tqdm

from app.languages.command_texts import gettext
from app.languages.phrases import phrase
from app.rows.rows import RowKind
from app.tools.audit.client.access import Access, AccessError
from app.tools.audit.client.http_client import CallError, MemberClient, Patience
from app.tools.audit.dump.nacos import read_nodes
from app.tools.audit.dump.parts import PartWriter
from app.tools.audit.dump.sources import take
from app.tools.audit.dump.store import Store, StoreError
from app.tools.audit.format.digests import DigestWriter
from app.tools.audit.format.layout import member_folders, round_folder, taken_at_text
from app.tools.audit.format.manifest import ROUNDS, DumpState, Manifest, MemberDump
from app.tools.audit.format.part_format import PartFormat

MEMBERS_AT_ONCE = 64
TICK_ROWS = 1_000
UNKNOWN_MAX = 50
LINKED_PREFIX = "part-linked"


class _Bar(tqdm):  # type: ignore[misc]  # tqdm comes without types
    monitor_interval = 0
    """A setting of tqdm: no thread runs next to the bar."""


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
                desc=gettext("round %(round)s", round=number),
                unit=gettext(" rows"),
                unit_scale=True,
                file=self._file,
                disable=not self._shown,
            )

    def rows(self, count: int) -> None:
        """Add to the number of rows; a negative count takes back those of a member that is asked again."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(count)

    def member_done(self) -> None:
        """Count one more member as done, dumped or absent."""
        with self._lock:
            self._done += 1
            if self._bar is not None:
                self._bar.set_postfix_str(_members_text(self._done, self._members))

    def close(self) -> None:
        """End the bar of the round under way."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


def _members_text(done: int, members: int) -> str:
    return gettext("members: %(count)s of %(total)s", count=done, total=members)


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of a dump. ``gap_s``: from a round's start to the next; ``namespaces``: further ids to ask for."""

    addresses: tuple[str, ...]
    dump_date: str
    access: Access
    gap_s: float
    namespaces: tuple[str, ...]
    format: PartFormat = PartFormat.JSON
    run: str | None = None
    """The name of the run in its manifests; None for a random one."""


@dataclass(slots=True)
class Dumped:
    """The manifests of the rounds that were written."""

    manifests: list[Manifest] = field(default_factory=list)

    def absent(self) -> list[tuple[int, MemberDump]]:
        """Return the members that did not answer, each with the number of its round."""
        return [
            (one.round, member) for one in self.manifests for member in one.members if member.state is DumpState.ABSENT
        ]

    def is_empty(self) -> bool:
        """Return whether no member was dumped in any round."""
        return len(self.absent()) == sum(len(one.members) for one in self.manifests)


def listed_members(address: str, access: Access) -> tuple[str, ...]:
    """Return the addresses that a member lists, in any state.

    Raises:
        CallError: the member does not answer, or lists no member.
        AccessError: an identity is given, which would be sent to any address that the member lists.
    """
    if access.identity:
        raise AccessError(phrase("--identity is only sent to members that you name: list them with --members"))
    with closing(MemberClient(address, access, Patience(access.retries, Event()))) as client:
        members = read_nodes(client).members
    if not members:
        raise CallError(phrase("it returned no list of members"))
    return tuple(dict.fromkeys(one.address for one in members))


def take_dump(plan: Plan, store: Store, progress: ProgressBar) -> Dumped:
    """Take all rounds, each begun ``gap_s`` after the start of the round before, or at its end if that is later.

    A round that an error or the keyboard ends gets no manifest.

    Raises:
        StoreError: the dump cannot be written.
    """
    run = plan.run or secrets.token_hex(8)
    dumped = Dumped()
    known: dict[str, str] = {}
    due_s = time.monotonic()
    for number in range(1, ROUNDS + 1):
        time.sleep(max(0.0, due_s - time.monotonic()))
        taken_at = taken_at_text(_wall_ms())
        due_s = time.monotonic() + plan.gap_s  # after the round's time, so that no two times are closer than the gap
        folder = round_folder(store.root, plan.dump_date, taken_at)
        store.make_folder(folder)
        progress.begin(number, len(plan.addresses))
        members = _by_own_address(plan.addresses, _take_round(plan, store, folder, progress), known)
        manifest = Manifest(run, plan.dump_date, taken_at, number, ROUNDS, plan.gap_s, members)
        store.write_manifest(folder, manifest)
        dumped.manifests.append(manifest)
    return dumped


def _take_round(plan: Plan, store: Store, folder: str, progress: ProgressBar) -> list[MemberDump]:
    stop = Event()
    names = member_folders(plan.addresses)

    def dump(address: str) -> MemberDump:
        try:
            taken = _dump_member(address, plan, store, folder, names[address], progress, stop)
        except StoreError:
            stop.set()  # the others need not continue either
            raise
        progress.member_done()
        return taken

    with ThreadPoolExecutor(min(len(plan.addresses), MEMBERS_AT_ONCE), thread_name_prefix="dump") as pool:
        try:
            return list(pool.map(dump, plan.addresses))
        except BaseException:
            stop.set()  # otherwise the pool would wait for calls that are no longer needed
            raise


def _dump_member(
    address: str, plan: Plan, store: Store, folder: str, name: str, progress: ProgressBar, stop: Event
) -> MemberDump:
    """Return one member's part of a round, after as many tries as needed; a member that fails is ABSENT, not an error.

    ``address`` is the one that the member gives itself; it may be empty.

    Raises:
        StoreError: the rows cannot be written.
    """
    patience = Patience(plan.access.retries, stop)
    began_s = time.monotonic()
    with closing(MemberClient(address, plan.access, patience)) as client:
        while True:
            writer = PartWriter(store.filesystem, folder, name, plan.format)
            linked = PartWriter(store.filesystem, folder, name, plan.format, prefix=LINKED_PREFIX)
            # The check reads all rows of JSON files.
            digests = DigestWriter() if plan.format is PartFormat.PARQUET else None
            counter = _Counter(partial(_write, writer, linked, digests), progress.rows)
            began_ms = _wall_ms()
            try:
                taken = take(client, plan.namespaces, counter.emit, links=True)
                parts, brought = writer.close(), linked.close()
                unknown = sorted(writer.unknown | linked.unknown)[:UNKNOWN_MAX]
                found = digests.result(corrupt=writer.corrupt) if digests else None
                taken = replace(taken, parts=parts, linked=brought, unknown_fields=unknown, digests=found)
                counter.flush()
                break
            except CallError as error:
                linked.discard()
                writer.discard()
                counter.take_back()
                if not patience.try_again(error):
                    taken = MemberDump("", DumpState.ABSENT, error=str(error))
                    break
            except BaseException:
                linked.discard()
                writer.discard()
                raise
    return replace(taken, taken_ms=began_ms, took_ms=int((time.monotonic() - began_s) * 1_000))


def _write(
    writer: PartWriter, linked: PartWriter, digests: DigestWriter | None, line: bytes, row: Mapping[str, Any]
) -> None:
    """Write a row to the files for such rows."""
    if row.get("kind") == RowKind.LINKED:
        linked.write(line, row)
    else:
        writer.write(line, row)
        if digests is not None:
            digests.add(row)


class _Counter:
    """Forwards lines to ``write``, and their number to ``tell`` once for every ``TICK_ROWS`` rows."""

    def __init__(self, write: Callable[[bytes, Mapping[str, Any]], None], tell: Callable[[int], None]) -> None:
        self._write = write
        self._tell = tell
        self._count = 0
        self._told = 0

    def emit(self, line: bytes, row: Mapping[str, Any]) -> None:
        self._write(line, row)
        self._count += 1
        if self._count - self._told >= TICK_ROWS:
            self.flush()

    def flush(self) -> None:
        self._tell(self._count - self._told)
        self._told = self._count

    def take_back(self) -> None:
        self._tell(-self._told)
        self._count = self._told = 0


def _by_own_address(given: Sequence[str], dumps: Sequence[MemberDump], known: dict[str, str]) -> list[MemberDump]:
    """Return the members' parts under the members' names for each other, which rows use for owners.

    ``known``: own addresses by given ones, also from earlier rounds, for a member that is absent now. Members that
    give themselves the same address keep the addresses at which they were asked; the check refuses them.
    """
    known.update({address: dump.address for address, dump in zip(given, dumps, strict=True) if dump.address})
    own = [known.get(address, address) for address in given]
    return [
        replace(dump, address=name if own.count(name) == 1 else address, own_address=dump.address)
        for address, name, dump in zip(given, own, dumps, strict=True)
    ]


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
