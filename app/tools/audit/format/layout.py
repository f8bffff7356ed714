"""The folders of a dump.

A part: ``dump_date=2026-11-21/taken_at=20261121T031500.000Z/member=10.0.0.7_8848/part-00000.jsonl.gz``.

The root is a folder or any URI of fsspec (``s3://``, ``hdfs://``, ``memory://``). Names have no colon, as Hadoop's
paths do not allow one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from app.tools.audit.format.file_systems import dated_folders, open_root
from app.tools.audit.format.manifest import (
    MANIFEST_NAME,
    OLD_MANIFEST_NAME,
    Manifest,
    ManifestError,
    decode_manifest,
)

_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")


class NoDump(Exception):
    """A night has no dump that can be compared; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Round:
    """One complete round: its folder, as a path of the file system, and its manifest."""

    folder: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Night:
    """The rounds of a night's latest complete run, in the order of their numbers.

    ``notes``: texts for the operator about the night's other runs and folders, such as those that were cut off.
    """

    date: str
    rounds: list[Round]
    notes: list[str] = field(default_factory=list)


def taken_at_text(wall_ms: int) -> str:
    """Return the name of a moment in folders and manifests, in UTC: ``20261121T031500.000Z``."""
    moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{wall_ms % 1000:03d}Z"


def taken_at_ms(text: str) -> int:
    """Return the wall-clock time (ms) of ``taken_at_text``."""
    return int(datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC).timestamp() * 1_000)


def round_folder(root: str, dump_date: str, taken_at: str) -> str:
    return f"{root}/dump_date={dump_date}/taken_at={taken_at}"


def member_folders(addresses: Iterable[str]) -> dict[str, str]:
    """Return folder names by member address, no two alike: ``member=10.0.0.7_8848`` for ``10.0.0.7:8848``."""
    folders: dict[str, str] = {}
    for address in addresses:
        name = wanted = "member=" + _UNSAFE.sub("_", address)
        number = 1
        while name in folders.values():
            number += 1
            name = f"{wanted}_{number}"
        folders[address] = name
    return folders


def nights(uri: str) -> list[str]:
    """Return the dates of the nights that have a folder under a dump's root, oldest first."""
    return dated_folders(*open_root(uri), "dump_date")


def read_night(uri: str, date: str | None = None, run: str | None = None) -> Night:
    """Return the latest complete run of a night; of the last night under the root without ``date``.

    ``run``: return this run and no other.

    Raises:
        NoDump: there is no such night, or no run of it is complete; the text names the runs that are cut off.
    """
    filesystem, root = open_root(uri)
    if date is None:
        known = nights(uri)
        if not known:
            raise NoDump(f"no dump under {uri}")
        date = known[-1]
    folder = f"{root}/dump_date={date}"
    if not filesystem.isdir(folder):
        raise NoDump(f"no dump of the night {date} under {uri}")
    rounds, notes = _read_rounds(filesystem, folder)
    runs: dict[str, list[Round]] = {}
    for one in rounds:
        runs.setdefault(one.manifest.run, []).append(one)
    complete = {name: found for name, found in runs.items() if _is_complete(found)}
    for name, found in runs.items():
        if name not in complete:
            numbers = ", ".join(str(one.manifest.round) for one in found)
            notes.append(f"run {name} is incomplete: only round {numbers} of {found[0].manifest.rounds}")
    if run is not None:
        if run not in complete:
            raise NoDump("; ".join([f"no complete dump of the night {date} by the run {run} under {uri}", *notes]))
        return Night(date, complete[run], notes)
    if not complete:
        raise NoDump("; ".join([f"no complete dump of the night {date} under {uri}", *notes]))
    latest = max(complete.values(), key=lambda found: found[-1].manifest.taken_at)
    return Night(date, latest, notes)


def _read_rounds(filesystem: Any, folder: str) -> tuple[list[Round], list[str]]:
    rounds: list[Round] = []
    notes: list[str] = []
    for path in sorted(path.rstrip("/") for path in filesystem.ls(folder, detail=False)):
        name = path.rpartition("/")[2]
        if not name.startswith("taken_at="):
            continue
        try:
            rounds.append(Round(path, decode_manifest(_manifest_body(filesystem, path))))
        except FileNotFoundError:
            notes.append(f"{name} has no manifest: its dump is still running or was interrupted")
        except ManifestError as error:
            notes.append(f"the manifest of {name} cannot be read: {error}")
    return rounds, notes


def _manifest_body(filesystem: Any, folder: str) -> bytes:
    try:
        body: bytes = filesystem.cat_file(f"{folder}/{MANIFEST_NAME}")
    except FileNotFoundError:
        body = filesystem.cat_file(f"{folder}/{OLD_MANIFEST_NAME}")
    return body


def _is_complete(rounds: list[Round]) -> bool:
    rounds.sort(key=lambda one: one.manifest.round)
    return [one.manifest.round for one in rounds] == list(range(1, rounds[0].manifest.rounds + 1))
