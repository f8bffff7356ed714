"""The messages of a verify round that compares digests, between Rollcall members.

Shape of a request: ``{"view": hex, "for": [member ...], "roots": {type: hex}, "samples": {type: [first leaf, last leaf
+ 1, hex]}, "buckets": {type: {bucket: base64}}, "keys": {type: {"leaves": [leaf ...], "versions": {key: version},
"contents": {key: hex}, "pending": [key ...], "whole": bool}}}``; of its answer: ``{"buckets": {type: base64}, "sums":
{type: {leaf: hex}}, "leaves": {type: [leaf ...]}, "received": {type: as of a verify round}}``. The fields of a request
are the steps of the round; those of its answer have the types alone that differ.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from distro.model.digest import BUCKET_BYTES, BUCKETS, BUCKETS_BYTES, HASH_BYTES, LEAVES
from distro.model.errors import CodecError
from distro.model.types import Received, Version
from distro.timing.sliced import dumps_sliced
from distro.wire.codec import decode_keys, decode_versions, encode_received, json_object, received_of

T = TypeVar("T")
NAMES_MAX = 100_000
"""The most names in each object of a message."""
TYPES_MAX, RELAYED_MAX = 16, 64
VIEW_CHARS_MAX = 64
SAMPLE_FIELDS = 3
_LEAF_OF = {str(leaf): leaf for leaf in range(LEAVES)}
_BUCKET_OF = {str(bucket): bucket for bucket in range(BUCKETS)}


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """The keys of some leaves for which the sender is responsible."""

    leaves: frozenset[int]
    versions: Mapping[str, Version]
    pending: frozenset[str] = frozenset()
    """The keys that are about to be sent."""
    is_whole: bool = True
    """True if all leaves that differ are included."""
    contents: Mapping[str, int] = field(default_factory=dict)
    """64 bits for the content of each of some keys."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A few leaves for which a round compares contents, too, of the keys that the sender owns."""

    leaves: range
    total: int
    """The sum of the hashes of these contents."""


@dataclass(frozen=True, slots=True)
class DigestRequest:
    """One step of a round; each mapping is by resource type."""

    view: str
    """A hash of the members that carry keys in the sender's view."""
    relayed: tuple[str, ...] = ()
    roots: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """Sent with the roots."""
    buckets: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    """The digests of the leaves of the buckets that differ."""
    keys: Mapping[str, ListedKeys] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The message."""
        head = {
            "view": self.view,
            "for": self.relayed,
            "roots": {name: _hex(root) for name, root in self.roots.items()},
            "samples": {
                name: [one.leaves.start, one.leaves.stop, _hex(one.total)] for name, one in self.samples.items()
            },
            "buckets": {name: {str(at): _text(one) for at, one in part.items()} for name, part in self.buckets.items()},
        }
        listed = [orjson.dumps(name) + b":" + _encode_listed(one) for name, one in self.keys.items()]
        return b'%b,"keys":{%b}}' % (orjson.dumps(head)[:-1], b",".join(listed))

    @classmethod
    def from_bytes(cls, body: bytes) -> "DigestRequest":
        """The request of a message.

        Raises:
            CodecError: it is not of that shape, or beyond a bound.
        """
        fields = json_object(body, NAMES_MAX)
        view, relayed = fields.get("view"), decode_keys(fields.get("for", []), "field 'for'")
        if not isinstance(view, str) or len(view) > VIEW_CHARS_MAX or len(relayed) > RELAYED_MAX:
            raise CodecError("field 'view' or 'for' is not text, or is too long")
        return cls(
            view,
            tuple(relayed),
            _by_type(fields, "roots", _from_hex),
            _by_type(fields, "samples", _decode_sample),
            _by_type(fields, "buckets", _decode_buckets),
            _by_type(fields, "keys", _decode_listed),
        )


@dataclass(frozen=True, slots=True)
class DigestAnswer:
    """The answer to one step; each mapping is by resource type."""

    buckets: Mapping[str, bytes] = field(default_factory=dict)
    """The digests of all buckets, for the types whose roots differ."""
    sums: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """The sum of the contents of each leaf, for the types whose samples differ."""
    leaves: Mapping[str, list[int]] = field(default_factory=dict)
    """The leaves that differ, in the buckets of the request."""
    received: Mapping[str, Received] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The message."""
        head = {
            "buckets": {name: _text(one) for name, one in self.buckets.items()},
            "sums": {name: {str(at): _hex(one) for at, one in part.items()} for name, part in self.sums.items()},
            "leaves": self.leaves,
        }
        received = [orjson.dumps(name) + b":" + encode_received(one) for name, one in self.received.items()]
        return b'%b,"received":{%b}}' % (orjson.dumps(head)[:-1], b",".join(received))

    @classmethod
    def from_bytes(cls, body: bytes) -> "DigestAnswer":
        """The answer of a message.

        Raises:
            CodecError: it is not of that shape, or beyond a bound.
        """
        fields = json_object(body, NAMES_MAX)
        return cls(
            _by_type(fields, "buckets", lambda one: _bytes(one, BUCKETS_BYTES)),
            _by_type(fields, "sums", _decode_sums),
            _by_type(fields, "leaves", _decode_leaves),
            _by_type(fields, "received", lambda one: received_of(_object(one))),
        )


def _encode_listed(listed: ListedKeys) -> bytes:
    versions = dumps_sliced({key: version.to_text() for key, version in listed.versions.items()})
    contents = dumps_sliced({key: _hex(one) for key, one in listed.contents.items()})
    rest = {"leaves": sorted(listed.leaves), "pending": sorted(listed.pending), "whole": listed.is_whole}
    return b'{"versions":%b,"contents":%b,%b' % (versions, contents, orjson.dumps(rest)[1:])


def _decode_listed(value: object) -> ListedKeys:
    fields = _object(value)
    return ListedKeys(
        frozenset(_decode_leaves(fields.get("leaves"))),
        decode_versions(fields.get("versions", {})),
        frozenset(decode_keys(fields.get("pending", []), "field 'pending'")),
        fields.get("whole") is True,
        {key: _from_hex(one) for key, one in _object(fields.get("contents", {})).items()},
    )


def _decode_sample(value: object) -> Sample:
    if not isinstance(value, list) or len(value) != SAMPLE_FIELDS:
        raise CodecError("a sample is two numbers of leaves and a sum")
    return Sample(range(_number(value[0], LEAVES), _number(value[1], LEAVES + 1)), _from_hex(value[2]))


def _decode_sums(value: object) -> dict[int, int]:
    found = _object(value)
    if not _LEAF_OF.keys() >= found.keys():
        raise CodecError("the number of a leaf was expected")
    return {_LEAF_OF[at]: _from_hex(one) for at, one in found.items()}


def _decode_leaves(value: object) -> list[int]:
    if not isinstance(value, list) or len(value) > LEAVES:
        raise CodecError("a list of leaves was expected")
    return [_number(one, LEAVES) for one in value]


def _decode_buckets(value: object) -> dict[int, bytes]:
    found = _object(value)
    if not _BUCKET_OF.keys() >= found.keys():
        raise CodecError("the number of a bucket was expected")
    return {_BUCKET_OF[at]: _bytes(one, BUCKET_BYTES) for at, one in found.items()}


def _number(value: object, end: int) -> int:
    if type(value) is not int or not 0 <= value < end:
        raise CodecError(f"a number from 0 to {end - 1} was expected")
    return value


def _hex(value: int) -> str:
    return f"{value:0{2 * HASH_BYTES}x}"


def _from_hex(value: object) -> int:
    if not isinstance(value, str) or len(value) != 2 * HASH_BYTES:
        raise CodecError(f"{2 * HASH_BYTES} hexadecimal digits were expected")
    try:
        return int.from_bytes(bytes.fromhex(value), "big")
    except ValueError:
        raise CodecError(f"{2 * HASH_BYTES} hexadecimal digits were expected") from None


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(value: object, size: int) -> bytes:
    try:
        found = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except binascii.Error:
        found = b""
    if len(found) != size:
        raise CodecError(f"{size} bytes in base64 were expected")
    return found


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise CodecError("an object was expected")
    return value


def _by_type(fields: Mapping[str, Any], name: str, decode: Callable[[object], T]) -> dict[str, T]:
    parts = _object(fields.get(name, {}))
    if len(parts) > TYPES_MAX:
        raise CodecError(f"field {name!r} has more than {TYPES_MAX} resource types")
    return {resource_type: decode(one) for resource_type, one in parts.items()}
