"""Fast parsers for registrations, full beats and changes of metadata as SDKs and curl send them.

Each function takes plain values (see ``Parameters.plain``) and returns the command that the general parser in
``app.http.input.params`` makes of them. It returns None for values out of the ordinary: those go to the general parser,
which alone words the refusals.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from app.http.input.metadata import parse_metadata
from app.http.input.values import java_double
from app.naming.model.flags import lenient_bool
from app.naming.model.keys import (
    DEFAULT_CLUSTER,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    check_service_format,
    compose_service_name,
)
from app.naming.model.model import Metadata
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.value_limits import PORT_MAX
from app.naming.registry.operations import Beat, RegisterInstance

KEPT_CHARS_MAX = 512
"""Longer texts are not cached, as any client may send them."""
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")
PORT_DIGITS_MAX = 5
_TEXTS = frozenset({str})
_LONG_EXPONENT = "0000000"
"""Zeros in front of an exponent: the general parser refuses one of over nine digits, orjson reads it."""


def _quick_port(text: str | None) -> int | None:
    if text and text.isdecimal() and len(text) <= PORT_DIGITS_MAX and (port := int(text)) <= PORT_MAX:
        return port
    return None


def _service(get: Callable[[str], str | None]) -> str | None:
    name, group = get("serviceName"), get("groupName") or DEFAULT_GROUP
    return _full_name(name, group) if name and len(name) + len(group) <= KEPT_CHARS_MAX else None


@lru_cache(65_536)
def _full_name(name: str, group: str) -> str | None:
    full = compose_service_name(name, group)
    try:
        check_service_format(full)
    except InvalidParam:
        return None
    return full


@lru_cache(1_024)
def _weight(text: str) -> float | None:
    try:
        return java_double(text)
    except InvalidParam:
        return None


@lru_cache(8_192)
def _metadata(text: str) -> Metadata | None:
    """The metadata in a text, one map for all equal texts; None when the text is no metadata."""
    try:
        # Python's own decoder, which ``parse_metadata`` needs for numbers, takes four times as long.
        fields: Metadata = orjson.loads(text)
        if _is_of_texts(fields):
            return fields
    except orjson.JSONDecodeError:
        pass
    try:
        return parse_metadata(text)
    except InvalidParam:
        return None


def quick_register(values: Mapping[str, str], ephemeral: bool) -> RegisterInstance | None:
    """The command of a registration; None for values that the general parser must read.

    ``ephemeral``: the kind of instance when the call names none.
    """
    get = values.get
    ip, port, service = get("ip"), _quick_port(get("port")), _service(get)
    if not ip or port is None or service is None or not _IPV4.fullmatch(ip):
        return None
    weight_text, text, app = get("weight") or "1", get("metadata") or "", get("app") or "DEFAULT"
    if len(text) > KEPT_CHARS_MAX or len(app) > KEPT_CHARS_MAX or len(weight_text) > KEPT_CHARS_MAX:
        return None
    weight, metadata = _weight(weight_text), _metadata(text)
    if weight is None or metadata is None:
        return None
    return RegisterInstance(
        service,
        ip,
        port,
        get("namespaceId") or DEFAULT_NAMESPACE,
        get("clusterName") or get("cluster") or DEFAULT_CLUSTER,
        weight,
        _flag(get("healthy") or "true"),
        _flag(get("enabled") or get("enable") or "true"),
        _flag(get("ephemeral") or ("true" if ephemeral else "false")),
        metadata,
        app,
    )


class MetadataBatch(NamedTuple):
    """Keys of the metadata of several instances of a service, to be set or removed."""

    namespace: str
    service: str
    kind: str
    """``ephemeral`` or ``persist``: all instances of a kind; empty for those that ``instances`` names."""
    instances: str
    metadata: Metadata | None


def quick_batch(values: Mapping[str, str]) -> MetadataBatch | None:
    """The command of a change of metadata; None for values that the general parser must read."""
    get = values.get
    service, text = _service(get), get("metadata") or ""
    if service is None or not text or len(text) > KEPT_CHARS_MAX:
        return None
    metadata = _metadata(text)
    if metadata is None:
        return None
    namespace = get("namespaceId") or DEFAULT_NAMESPACE
    return MetadataBatch(namespace, service, get("consistencyType") or "", get("instances") or "", metadata)


def _flag(text: str) -> bool:
    return True if text == "true" else lenient_bool(text)


def _is_of_texts(fields: Any) -> bool:
    return type(fields) is dict and {*map(type, fields.values())} <= _TEXTS


def quick_beat(values: Mapping[str, str]) -> Beat | None:
    """The command of a full beat; None for values that the general parser must read.

    The fields of its JSON must have the types that SDKs give them.
    """
    get = values.get
    text, service = get("beat"), _service(get)
    if not text or len(text) > KEPT_CHARS_MAX or service is None or _quick_port(get("port") or "0") is None:
        return None
    try:
        fields: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(fields) is not dict:
        return None
    found = fields.get
    ip, port, cluster, weight = found("ip"), found("port"), found("cluster"), found("weight")
    metadata, ephemeral = found("metadata"), found("ephemeral", True)
    if type(ip) is not str or not _IPV4.fullmatch(ip) or type(port) is not int or not 0 <= port <= PORT_MAX:
        return None
    if type(weight) is not float and type(weight) is not int:
        return None
    if not 0 < weight < math.inf or _LONG_EXPONENT in text:
        return None
    if type(cluster) is not str or not cluster or type(ephemeral) is not bool:
        return None
    if metadata is not None and not _is_of_texts(metadata):
        return None
    if not cluster.isalnum():
        return None  # it may have blanks around it
    return Beat(
        service,
        ip,
        port,
        get("namespaceId") or DEFAULT_NAMESPACE,
        cluster,
        True,
        float(weight),
        metadata,
        ephemeral,
    )
