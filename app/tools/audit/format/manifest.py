"""The manifest of one round of a dump: the answer of each member, with the rows, bytes and sha256 of its files.

It is written last, so a folder without one is a dump that is under way or was cut off.
"""

import contextlib
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import orjson
from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, validate

from app.naming.model.keys import DUMP_BUCKETS
from app.rows.rows import FIELDS, FORMAT

MANIFEST_NAME = "_manifest.json"
"""Spark, Arrow and Hive leave out files whose names begin with an underscore, so they read a dump's folder as it is."""
OLD_MANIFEST_NAME = "manifest.json"
"""The name in dumps of earlier releases, which are still read."""
ROUNDS = 2


class ManifestError(Exception):
    """The file is not a manifest that this version can read; the text names the field."""


class DumpState(StrEnum):
    DUMPED = "dumped"
    ABSENT = "absent"
    """The member did not answer; its ``error`` says how."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of rows. ``path`` is relative to the round's folder; ``bytes`` and ``sha256`` are of the file itself.

    ``footer_bytes`` and ``footer_sha256`` are of the end of a Parquet file, which names all its pages.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    footer_bytes: int = 0
    footer_sha256: str = ""

    @property
    def is_parquet(self) -> bool:
        return self.path.endswith(".parquet")


@dataclass(frozen=True, slots=True)
class Seen:
    """A member as another member lists it; ``state`` is UP, DOWN, SUSPICIOUS and so on."""

    address: str
    state: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a member to another cluster, and its patterns of services, as in the settings of links."""

    name: str
    cluster: str
    """The id of the other cluster; empty if it was never heard."""
    namespaces: list[str] = field(default_factory=lambda: ["*"])
    groups: list[str] = field(default_factory=lambda: ["*"])
    services: list[str] = field(default_factory=lambda: ["*"])
    namespace_map: dict[str, str] = field(default_factory=dict)
    heard_ago_ms: int = 0
    servers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of a member's rows by bucket of services (see ``digests``)."""

    kind: str
    """The rule for making them."""
    owners: dict[str, str] = field(default_factory=dict)
    """The buckets with services of each owner that the rows name: the bits of a hexadecimal number."""
    buckets: dict[str, str] = field(default_factory=dict)
    """A text for each bucket that holds rows, by its number: ``SUM ROWS SERVICES INSTANCES``, and ``odd`` at its end if
    the check has to read it. Some 36 KB for a member with many services."""


@dataclass(frozen=True, slots=True)
class MemberDump:
    """One member's part of a round: its state, its list of members, and the files and counts of its rows.

    ``kind`` is ``rollcall``, ``nacos-1`` or ``catalog``. ``taken_ms`` is the wall-clock time (ms) at which the last try
    began, ``took_ms`` the duration (ms) of all tries.
    """

    address: str
    state: DumpState
    kind: str = ""
    version: str = ""
    error: str = ""
    taken_ms: int = 0
    took_ms: int = 0
    services: int = 0
    instances: int = 0
    members: list[Seen] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    tells: list[str] = field(default_factory=list)
    """Kinds of rows that the member gives beside services and instances: ``record``, ``client``."""
    own_address: str = ""
    """The address that the member gives itself; it may be empty, as in dumps of earlier releases."""
    unknown_fields: list[str] = field(default_factory=list)
    """Names of fields of the member's rows that are unknown here, and were left out."""
    cluster: str = ""
    """The id of its cluster towards linked ones; it may be empty."""
    links: list[Link] = field(default_factory=list)
    linked: list[Part] = field(default_factory=list)
    """The files with the instances of links, apart from ``parts``."""
    digests: Digests | None = None
    """The digests of the rows in ``parts``; None in a dump without them, as of earlier releases."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one round. Rounds of one dump share ``run``; ``round`` counts from 1 to ``rounds``."""

    run: str
    dump_date: str
    taken_at: str
    round: int
    rounds: int
    gap_s: float
    members: list[MemberDump]
    format: int = FORMAT
    fields: list[str] = field(default_factory=lambda: list(FIELDS))

    def member(self, address: str) -> MemberDump | None:
        return next((one for one in self.members if one.address == address), None)


def encode_manifest(manifest: Manifest) -> bytes:
    return orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decode_manifest(body: bytes) -> Manifest:
    """Return the manifest in a file's bytes.

    Raises:
        ManifestError: the bytes are damaged, or of a format that is not known here.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ManifestError("it is not JSON") from None
    if not isinstance(value, dict):
        raise ManifestError("it is not a JSON object")
    if value.get("format") != FORMAT:
        raise ManifestError(f"field 'format' is {value.get('format')!r}; this version reads {FORMAT}")
    try:
        manifest: Manifest = _MANIFEST.load(value)
    except ValidationError as error:
        raise ManifestError(_first(error.messages)) from None
    return manifest


def _first(messages: Any, path: str = "") -> str:
    """Return the first of marshmallow's messages, with the path of its field."""
    if isinstance(messages, dict):
        name, rest = next(iter(messages.items()))
        return _first(rest, path if name == "_schema" else f"{path}.{name}" if path else str(name))
    text = messages[0] if isinstance(messages, list) else messages
    return f"field '{path}': {text}" if path else str(text)


class _Base(Schema):
    """A schema that loads values of the class ``made``, and ignores fields that it does not know."""

    made: ClassVar[type]

    class Meta:
        unknown = EXCLUDE

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> Any:
        return self.made(**data)


_COUNT = validate.Range(min=0)


class _PartSchema(_Base):
    made = Part
    # Of the round's folder and no other: a path that climbs out is refused.
    path = fields.String(
        required=True, validate=validate.Regexp(r"member=[A-Za-z0-9_.-]+/part-[A-Za-z0-9_-]+\.(jsonl\.gz|parquet)")
    )
    rows = fields.Integer(required=True, strict=True, validate=_COUNT)
    bytes = fields.Integer(required=True, strict=True, validate=_COUNT)
    sha256 = fields.String(required=True, validate=validate.Regexp(r"[0-9a-f]{64}"))
    footer_bytes = fields.Integer(strict=True, validate=_COUNT)
    footer_sha256 = fields.String(validate=validate.Regexp(r"([0-9a-f]{64})?"))


class _SeenSchema(_Base):
    made = Seen
    address = fields.String(required=True)
    state = fields.String(required=True)


class _LinkSchema(_Base):
    made = Link
    name = fields.String(required=True)
    cluster = fields.String(required=True)
    namespaces = fields.List(fields.String())
    groups = fields.List(fields.String())
    services = fields.List(fields.String())
    namespace_map = fields.Dict(keys=fields.String(), values=fields.String())
    heard_ago_ms = fields.Integer(strict=True)
    servers = fields.List(fields.String())


class _DigestsSchema(_Base):
    made = Digests
    kind = fields.String(required=True)
    owners = fields.Dict()
    buckets = fields.Dict(validate=validate.Length(max=DUMP_BUCKETS))


class _MemberSchema(_Base):
    made = MemberDump
    address = fields.String(required=True, validate=validate.Length(min=1))
    state = fields.Enum(DumpState, by_value=True, required=True)
    kind = fields.String()
    version = fields.String()
    error = fields.String()
    own_address = fields.String()
    taken_ms = fields.Integer(strict=True)
    took_ms = fields.Integer(strict=True)
    services = fields.Integer(strict=True, validate=_COUNT)
    instances = fields.Integer(strict=True, validate=_COUNT)
    members = fields.List(fields.Nested(_SeenSchema))
    parts = fields.List(fields.Nested(_PartSchema))
    tells = fields.List(fields.String())
    unknown_fields = fields.List(fields.String())
    cluster = fields.String()
    links = fields.List(fields.Nested(_LinkSchema))
    linked = fields.List(fields.Nested(_PartSchema))
    digests = fields.Nested(_DigestsSchema, allow_none=True)


class _ManifestSchema(_Base):
    made = Manifest
    format = fields.Integer(required=True, strict=True)
    run = fields.String(required=True, validate=validate.Length(min=1))
    dump_date = fields.String(required=True, validate=validate.Regexp(r"\d{4}-\d\d-\d\d"))
    taken_at = fields.String(required=True, validate=validate.Regexp(r"\d{8}T\d{6}\.\d{3}Z"))
    round = fields.Integer(required=True, strict=True, validate=validate.Range(min=1))
    rounds = fields.Integer(required=True, strict=True, validate=validate.Range(min=1))
    gap_s = fields.Float(required=True)
    members = fields.List(fields.Nested(_MemberSchema), required=True)
    fields_ = fields.List(fields.String(), data_key="fields", attribute="fields")


_MANIFEST = _ManifestSchema()
LINKS_MAX = 100


def links_of(value: Any) -> list[Link]:
    """Return the links in a member's answer; one that is not as it should be is left out, and so are too many."""
    found = []
    for one in value[:LINKS_MAX] if isinstance(value, list) else []:
        with contextlib.suppress(ValidationError):
            found.append(_LinkSchema().load(one))
    return found
