"""The metadata parameter of instances and services."""

from app.http.input import json_text
from app.http.input.values import ECHO_CHARS_MAX
from app.naming.model.keys import check_metadata_size
from app.naming.model.model import Metadata
from app.naming.model.nacos_errors import InvalidParam


def parse_metadata(text: str) -> Metadata | None:
    """The metadata in a text: a JSON object of scalars, which become texts, or ``k=v,k=v``; None for the JSON ``null``.

    Raises:
        InvalidParam: neither form, or over ``METADATA_CHARS_MAX``. Source: Nacos 1.4.1 UtilsAndCommons.parseMetadata.
    """
    if not text:
        return {}
    json_text.check_values("metadata", text)
    try:
        value = json_text.loads(text)
        metadata = None if value is None else json_text.scalars(value)
    except ValueError:
        metadata = _parse_pairs(text)
    check_metadata_size(metadata)
    return metadata


def _parse_pairs(text: str) -> dict[str, str | None]:
    pairs: dict[str, str | None] = {}
    for piece in _java_split(text, ","):
        parts = _java_split(piece, "=")
        if len(parts) != 2:
            raise InvalidParam(f"metadata format incorrect:{text[:ECHO_CHARS_MAX]}")
        pairs[parts[0]] = parts[1]
    return pairs


def _java_split(text: str, separator: str) -> list[str]:
    """Java's String.split, which drops empty parts at the end: ``k=`` is one part, ``=v`` two."""
    parts = text.split(separator)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts
