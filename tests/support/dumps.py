"""Small dumps written by hand: rows for each member, one file each, both rounds."""

import gzip
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from app.rows.rows import encode_row, instance_row, service_row
from app.tools.audit.dump.parts import row_file
from app.tools.audit.format.digests import DigestWriter
from app.tools.audit.format.layout import Round, member_folders, round_folder, taken_at_text
from app.tools.audit.format.manifest import (
    MANIFEST_NAME,
    Digests,
    DumpState,
    Link,
    Manifest,
    MemberDump,
    Part,
    Seen,
    decode_manifest,
    encode_manifest,
)
from app.tools.audit.format.part_format import PartFormat

FIRST_MS = 1_795_230_900_000
GAP_MS = 15_000
ADDRESSES = ("10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848")
SERVICE = "DEFAULT_GROUP@@orders"
Rows = Sequence[Mapping[str, Any] | bytes]
"""Rows, or lines as they are."""


VALUES = frozenset({"healthy", "enabled", "weight", "metadata"})


def instance(number: int = 1, **values: Any) -> dict[str, Any]:
    """An instance that the first member owns; one with values of its own has an earlier version than the others."""
    counter = number if values.keys() & VALUES else 100 + number
    return instance_row(
        **{
            "namespace": "public",
            "service": SERVICE,
            "cluster": "DEFAULT",
            "ip": f"10.1.0.{number}",
            "port": 8080,
            "ephemeral": True,
            "healthy": True,
            "enabled": True,
            "weight": 1.0,
            "metadata": {},
            "version": f"1.{counter}.{ADDRESSES[0]}~a",
            "owner": ADDRESSES[0],
        }
        | values
    )


def service(name: str = SERVICE, owner: str | None = ADDRESSES[0], **values: Any) -> dict[str, Any]:
    return service_row("public", name, "1.1.a", owner, **values)


def digests_of(rows: Iterable[Mapping[str, Any]]) -> Digests | None:
    """Return the digests of all rows of a member in a round, as `rollcall dump` makes them."""
    writer = DigestWriter()
    for row in rows:
        writer.add(row)
    return writer.result()


def write_round(
    root: Path,
    number: int,
    members: Mapping[str, Rows | str],
    date: str,
    seen: Mapping[str, str] | None = None,
    part_format: PartFormat = PartFormat.JSON,
    rows_per_part: int = 1_000_000,
    *,
    digests: bool = False,
) -> Path:
    """Write one round and return its folder; a member given as a text is absent, for that reason.

    ``seen``: the list that each member gives, addresses to states; without it all members of the round, as UP.
    ``digests``: as `rollcall dump` writes them.
    """
    taken_ms = FIRST_MS + (number - 1) * GAP_MS
    folder = Path(round_folder(str(root), date, taken_at_text(taken_ms)))
    names = member_folders(members)
    views = seen or dict.fromkeys(members, "UP")
    dumps = []
    for address, rows in members.items():
        if isinstance(rows, str):
            dumps.append(MemberDump(address, DumpState.ABSENT, error=rows))
            continue
        listed = [Seen(one, state) for one, state in views.items()]
        told = MemberDump(
            address,
            DumpState.DUMPED,
            "rollcall",
            "0.1.0",
            members=listed,
            taken_ms=taken_ms,
            tells=["client", "record"],
        )
        if not rows:  # a member that holds nothing has no folder
            dumps.append(told)
            continue
        lines = [row if isinstance(row, bytes) else encode_row(row) for row in rows]
        parts = [
            _write_part(folder, f"{names[address]}/part-{place:05d}.{part_format.ending}", chosen, part_format)
            for place, chosen in enumerate(lines[at : at + rows_per_part] for at in range(0, len(lines), rows_per_part))
        ]
        whole = [orjson.loads(row) if isinstance(row, bytes) else row for row in rows] if digests else []
        dumps.append(replace(told, parts=parts, digests=digests_of(whole) if digests else None))
    folder.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(f"run-{date}", date, taken_at_text(taken_ms), number, 2, GAP_MS / 1000, dumps)
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(manifest))
    return folder


def _write_part(folder: Path, name: str, lines: Sequence[bytes], part_format: PartFormat) -> Part:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    body, footer = _encoded(lines, part_format)
    path.write_bytes(body)
    return Part(name, len(lines), len(body), hashlib.sha256(body).hexdigest(), *footer)


def _encoded(lines: Sequence[bytes], part_format: PartFormat) -> tuple[bytes, tuple[int, str]]:
    """The bytes of a file of these lines; size and hash of its footer."""
    if part_format is PartFormat.JSON:
        return gzip.compress(b"".join(lines), 1, mtime=0), (0, "")
    body = io.BytesIO()
    file = row_file(part_format, body.write)
    for line in lines:
        file.write(line, orjson.loads(line))
    footer = file.close()
    return body.getvalue(), footer


def write_dump(
    root: Path,
    first: Mapping[str, Rows | str],
    second: Mapping[str, Rows | str] | None = None,
    date: str = "2026-11-20",
    part_format: PartFormat = PartFormat.JSON,
    *,
    seen: Mapping[str, str] | None = None,
    rows_per_part: int = 1_000_000,
    digests: bool = False,
) -> list[Path]:
    """Write both rounds, the second like the first unless given; return their folders. The rest: as ``write_round``."""
    return [
        write_round(root, number, members, date, seen, part_format, rows_per_part, digests=digests)
        for number, members in ((1, first), (2, second or first))
    ]


@dataclass(frozen=True, slots=True)
class LinkedRows:
    """The id of a member's cluster, its links, and the rows that they brought."""

    cluster: str
    links: list[Link] = field(default_factory=list)
    rows: Sequence[Mapping[str, Any]] = ()
    taken_ms: int = 0
    """When the member was dumped; 0: as the others of its round."""


def add_links(folder: Path, linked: Mapping[str, LinkedRows]) -> None:
    """Write what links brought into a round that is written, by member."""
    manifest = decode_manifest((folder / MANIFEST_NAME).read_bytes())
    names, members = member_folders(one.address for one in manifest.members), []
    for one in manifest.members:
        told, parts = linked[one.address], []
        if told.rows:
            name = f"{names[one.address]}/part-linked-00000.jsonl.gz"
            parts = [_write_part(folder, name, [encode_row(row) for row in told.rows], PartFormat.JSON)]
        taken_ms = told.taken_ms or one.taken_ms
        changed = replace(one, cluster=told.cluster, links=told.links, linked=parts, taken_ms=taken_ms)
        members.append(changed)
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(replace(manifest, members=members)))


def change_rows(folder: Path, address: str, change: Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]) -> None:
    """Replace each row of a member in a round of JSON files, and have the manifest agree."""
    manifest, members = decode_manifest((folder / MANIFEST_NAME).read_bytes()), []
    for one in manifest.members:
        parts = one.parts
        if one.address == address:
            parts = []
            for part in one.parts:
                rows = map(orjson.loads, gzip.decompress((folder / part.path).read_bytes()).splitlines())
                lines = [encode_row(changed) for row in rows for changed in change(row)]
                parts.append(_write_part(folder, part.path, lines, PartFormat.JSON))
        members.append(replace(one, parts=parts))
    (folder / MANIFEST_NAME).write_bytes(encode_manifest(replace(manifest, members=members)))


def rows_of(found: Round, member: MemberDump) -> list[dict[str, Any]]:
    """What was written of a member in a round, in an order of our own."""
    rows: list[dict[str, Any]] = []
    for part in member.parts:
        body = Path(found.folder, part.path).read_bytes()
        if part.is_parquet:
            from app.tools.audit.format.columns import rows_of_parquet  # of pyarrow, which unit tests do without

            rows += [row for row in rows_of_parquet(io.BytesIO(body)) if row is not None]
        else:
            rows += map(orjson.loads, gzip.decompress(body).splitlines())
    return sorted(rows, key=lambda row: (row["service"], row["kind"], row.get("ip", ""), row.get("name", "")))
