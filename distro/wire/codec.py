"""The frame of datum traffic: a JSON object ``{key: datum}``, gzip or plain. A ``DatumCodec`` encodes each datum."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from distro.model.errors import CodecError
from distro.model.ports import DatumCodec
from distro.model.types import NO_VERSION, Datum, Received, Version
from distro.timing.sliced import dumps_sliced, loads_sliced, paced

GZIP_MAGIC = b"\x1f\x8b"
SLICED_FROM_BYTES = 256 * 1024
"""Longer bodies are read in steps: orjson would hold the interpreter for two milliseconds to read this much."""
PART_BYTES = 128 * 1024
"""The least size of a part of a frame, plain."""
ZIPPED_PART_BYTES = 16 * 1024
"""The least size of a part of a frame, as gzip."""
RATIO_MAX, RATIO_FREE = 200, 1024 * 1024
"""Instance lists shrink to a twenty-fifth, with equal metadata to a hundredth. A thousandth is an attack."""
AGE_MS_MAX = 1e12
"""An age in ms above all possible ones: no member runs for so long."""
_NONE_REFUSED = b'{"refused":{},"failed":{}'
NO_VERSIONS: Mapping[str, Version] = MappingProxyType({})
GZIP_LEVEL = 1
"""Between members on one network, level 1 has the lowest total cost of compressing and sending."""


def gunzip_if_gzip(body: bytes, size_max: int) -> bytes:
    """Return the plain bytes of a peer's body, within ``size_max`` and the ratio of ``unpacked_max``.

    The magic decides, not Content-Encoding: Nacos 1.4 sends that header over plain JSON.
    Source: Nacos 1.4.1 NamingProxy.syncData.

    Raises:
        CodecError: broken gzip, cut short, or longer than that.
    """
    plain, whole = body, True
    if body.startswith(GZIP_MAGIC):
        size_max = min(size_max, unpacked_max(body))
        decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            plain, whole = decoder.decompress(body, size_max + 1), decoder.eof
        except zlib.error as error:
            raise CodecError(f"broken gzip body of {len(body)} bytes") from error
    if len(plain) > size_max or not whole:
        raise CodecError(f"body of {len(body)} bytes is cut short or over {size_max} bytes plain")
    return plain


def unpacked_max(body: bytes) -> int:
    """Return the most bytes that a body may unpack to.

    For gzip, the length stated at its end, at most ``RATIO_FREE`` or ``RATIO_MAX`` times the body's length; else the
    body's length.
    """
    if not body.startswith(GZIP_MAGIC):
        return len(body)
    return min(max(RATIO_MAX * len(body), RATIO_FREE), int.from_bytes(body[-4:], "little"))


def gzip_body(plain: bytes) -> bytes:
    """The bytes as gzip; equal bytes give equal gzip."""
    return gzip.compress(plain, GZIP_LEVEL, mtime=0)


def json_object(body: bytes, names_max: int | None = None) -> dict[str, Any]:
    """The JSON object of a body, with at most so many names.

    Raises:
        CodecError: it is not JSON, not an object, or has more names; of a long body no further ones are read then.
    """
    try:
        value = orjson.loads(body) if len(body) <= SLICED_FROM_BYTES else loads_sliced(body, names_max)
    except ValueError as error:
        raise CodecError(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CodecError("the body is not a JSON object")
    if names_max is not None and len(value) > names_max:
        raise CodecError(f"the body has more than {names_max} names")
    return value


def encode_frame(datums: Iterable[Datum], codec: DatumCodec, now_ms: int, *, versioned: bool) -> bytes:
    """The JSON of a frame; without our own fields when not ``versioned``."""
    return frame_of(encode_entries(datums, codec, now_ms, versioned=versioned))


def frame_of(entries: Iterable[bytes]) -> bytes:
    """The frame of these ``key: datum`` texts."""
    return b"{" + b",".join(entries) + b"}"


def encode_entries(datums: Iterable[Datum], codec: DatumCodec, now_ms: int, *, versioned: bool) -> Iterator[bytes]:
    """The ``key: datum`` texts of a frame, each encoded when it is asked for."""
    return (orjson.dumps(datum.key) + b":" + codec.encode(datum, now_ms, versioned) for datum in datums)


def encode_versions(versions: Mapping[str, Version]) -> Iterator[bytes]:
    """The ``key: version`` texts of a frame."""
    return (orjson.dumps(key) + b":" + orjson.dumps(version.to_text()) for key, version in versions.items())


def cut_entries(entries: Iterable[bytes], bytes_max: int) -> Iterator[bytes]:
    """Return the first of these entries, until they reach ``bytes_max`` bytes; at least one."""
    size = 0
    for entry in entries:
        yield entry
        size += len(entry)
        if size >= bytes_max:
            return


def frame_parts(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Return the frame of these entries in parts of ``PART_BYTES`` or a little more.

    Joining many megabytes in one step would take as many milliseconds.
    """
    texts, size, before = list[bytes](), 0, b"{"
    for entry in entries:
        texts += before, entry
        before = b","
        size += len(entry)
        if size >= PART_BYTES:
            yield b"".join(texts)
            texts, size = [], 0
    yield b"".join([*texts, b"{}" if before == b"{" else b"}"])


def gzip_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The gzip of these parts together, in parts of ``ZIPPED_PART_BYTES`` or more."""
    packer = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    packed = b""
    for part in parts:
        packed += packer.compress(part)
        if len(packed) >= ZIPPED_PART_BYTES:
            yield packed
            packed = b""
    yield packed + packer.flush()


def decode_frame(body: bytes, codec: DatumCodec, now_ms: int) -> tuple[list[Datum], dict[str, str]]:
    """The datums of a frame, and the reason for each key whose datum cannot be read.

    Raises:
        CodecError: the frame itself cannot be read.
    """
    return decode_entries(json_object(body), codec, now_ms)


def decode_entries(
    entries: Mapping[str, object], codec: DatumCodec, now_ms: int, versions: Mapping[str, Version] = NO_VERSIONS
) -> tuple[list[Datum], dict[str, str]]:
    """Return the datums of a frame's entries, all of one resource type, and the reason for each that cannot be read.

    ``versions``: those that ``versions_of`` read already.
    """
    datums: list[Datum] = []
    failed: dict[str, str] = {}
    for key, value in paced(entries.items()):
        try:
            if not isinstance(value, dict):
                raise CodecError("a datum is not an object")
            datums.append(codec.decode(key, value, now_ms, versions.get(key)))
        except CodecError as error:
            failed[key] = str(error)
    return datums, failed


def versions_of(entries: Mapping[str, object], stored: Callable[[str], Version | None]) -> dict[str, Version]:
    """Return the versions in a frame's entries, for those entries whose version can be read.

    ``stored``: returns the version that is stored of a key; nearly every other one comes soon after it.
    """
    found: dict[str, Version] = {}
    for key, value in paced(entries.items()):
        if type(value) is dict and (text := value.get("version")) is not None:
            try:
                found[key] = (stored(key) or NO_VERSION).beside(text)
            except CodecError:
                continue  # refused when the datum is read
    return found


def encode_received(received: Received) -> bytes:
    """The body that answers datums and verify rounds among Rollcall members.

    Shape: ``{"refused": {key: version}, "failed": {key: reason}, "wanted": [key ...], "ages": {key: ms or null},
    "pushed": {key: ms}, "fetching": count}``, each but the first two only if there is one.
    """
    parts = [_NONE_REFUSED]
    if received.refused or received.failed:
        refused = {key: version.to_text() for key, version in received.refused.items()}
        parts = [b'{"refused":%b,"failed":%b' % (dumps_sliced(refused), dumps_sliced(received.failed))]
    if received.wanted:
        parts.append(b'"wanted":%b' % orjson.dumps(received.wanted))
    for name, ages in ((b"ages", received.ages_ms), (b"pushed", received.pushed_ms)):
        if ages:
            parts.append(b'"%b":%b' % (name, dumps_sliced(ages)))
    if received.fetching is not None:
        parts.append(b'"fetching":%d' % received.fetching)
    return b",".join(parts) + b"}"


def decode_received(body: bytes) -> Received:
    """The answer in a body that ``encode_received`` made.

    Raises:
        CodecError: it is not of that shape.
    """
    return received_of(json_object(body))


def received_of(fields: Mapping[str, Any]) -> Received:
    """The answer in the fields of such a body.

    Raises:
        CodecError: they are not of that shape.
    """
    wanted = decode_keys(fields.get("wanted", []), "field 'wanted'")
    fetching = fields.get("fetching")
    if fetching is not None and (not isinstance(fetching, int) or fetching < 0):
        raise CodecError("field 'fetching' is not a count")
    return Received(
        decode_versions(fields.get("refused", {})),
        _texts(fields.get("failed", {})),
        tuple(wanted),
        _ages_ms(fields.get("ages", {})),
        {key: age_ms for key, age_ms in _ages_ms(fields.get("pushed", {})).items() if age_ms is not None},
        fetching,
    )


def decode_keys(value: object, what: str) -> list[str]:
    """The keys of a JSON list; ``what`` names the list in the error.

    Raises:
        CodecError: not a list of texts.
    """
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise CodecError(f"{what} is not a list of keys")
    return value


def decode_versions(fields: object) -> dict[str, Version]:
    """The versions of a JSON object ``{key: version text}``.

    Raises:
        CodecError: it is not of that shape.
    """
    return {key: Version.from_text(text) for key, text in paced(_texts(fields).items())}


def _ages_ms(fields: object) -> dict[str, float | None]:
    if not isinstance(fields, Mapping) or not all(
        age_ms is None or (isinstance(age_ms, int | float) and 0 <= age_ms <= AGE_MS_MAX) for age_ms in fields.values()
    ):
        raise CodecError("an object of ages in ms was expected")
    return dict(fields)


def _texts(fields: object) -> dict[str, str]:
    if not isinstance(fields, Mapping) or not all(isinstance(text, str) for text in fields.values()):
        raise CodecError("an object of texts was expected")
    return dict(fields)
