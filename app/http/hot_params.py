"""The usual calls, read in a fraction of the time: registrations and full beats as SDKs and curl send them.

Each function takes values that are plain (see ``Parameters.plain``) and gives the command that the general parser of
``app.http.params`` would make of them, or None for all that is not quite usual; every refusal is that one's to word.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from app.http.metadata import parse_metadata
from app.http.values import java_double, lenient_bool
from app.naming.errors import InvalidParam
from app.naming.keys import (
    DEFAULT_CLUSTER,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    check_service_format,
    compose_service_name,
)
from app.naming.model import Metadata
from app.naming.operations import Beat, RegisterInstance

KEPT_CHARS_MAX = 512
"""Longer texts are read each time: what is kept here comes from whoever may call."""
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}")
PORT_DIGITS_MAX = 5
PORT_MAX = 65_535


def _quick_port(text: str | None) -> int | None:
    if text and text.isdecimal() and len(text) <= PORT_DIGITS_MAX and (port := int(text)) <= PORT_MAX:
        return port
    return None


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
    """The map of a text; equal texts share one. None when it is none."""
    try:
        return parse_metadata(text)
    except InvalidParam:
        return None


def quick_register(values: Mapping[str, str], ephemeral: bool) -> RegisterInstance | None:
    """The command of a registration. ``ephemeral``: the kind when the call names none."""
    get = values.get
    name, ip, port = get("serviceName"), get("ip"), _quick_port(get("port"))
    if not name or not ip or port is None or not _IPV4.fullmatch(ip):
        return None
    service = _full_name(name, get("groupName") or DEFAULT_GROUP)
    weight = _weight(get("weight") or "1")
    text = get("metadata") or ""
    metadata = _metadata(text) if len(text) <= KEPT_CHARS_MAX else None
    app = get("app") or "DEFAULT"
    if service is None or weight is None or metadata is None or len(app) > KEPT_CHARS_MAX:
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


def _flag(text: str) -> bool:
    return True if text == "true" else lenient_bool(text)


def quick_beat(values: Mapping[str, str]) -> Beat | None:
    """The command of a full beat, whose object is JSON with the types that SDKs give its fields."""
    get = values.get
    name, text = get("serviceName"), get("beat")
    if not name or not text or _quick_port(get("port") or "0") is None:
        return None
    service = _full_name(name, get("groupName") or DEFAULT_GROUP)
    try:
        fields: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if service is None or type(fields) is not dict:
        return None
    found = fields.get
    ip, port, cluster, weight = found("ip"), found("port"), found("cluster"), found("weight")
    metadata, ephemeral = found("metadata"), found("ephemeral", True)
    if type(ip) is not str or not _IPV4.fullmatch(ip) or type(port) is not int or not 0 <= port <= PORT_MAX:
        return None
    if type(weight) is not float or type(cluster) is not str or not cluster or type(ephemeral) is not bool:
        return None
    if metadata is not None:
        if type(metadata) is not dict or len(text) > KEPT_CHARS_MAX:
            return None
        if not all(type(one) is str for one in metadata.values()):
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
        weight + 0.0,
        metadata,
        ephemeral,
    )
