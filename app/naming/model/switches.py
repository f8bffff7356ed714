"""SwitchDomain: the settings that operators change while the members run. One durable record, replicated like all."""

import math
import re
import struct
from collections.abc import Callable, Mapping
from ctypes import c_float
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app.naming.model.json_fields import lenient_bool, strict_bool
from app.naming.model.keys import INT_MAX
from app.naming.model.nacos_errors import InvalidParam

STATUSES = ("UP", "DOWN", "STARTING", "PAUSED", "WRITE_ONLY", "READ_ONLY")
SWITCH_DOMAIN_NAME = "00-00---000-NACOS_SWITCH_DOMAIN-000---00-00"
MIN_CHECK_MS = 500
MIN_CHECK_MAX_MS = 3_000
CHECK_MS_MAX = 86_400_000
"""Real Nacos has no limit. An instance that is checked less than once a day is as good as unchecked."""
MIN_PUSH_CACHE_MS = 10_000
MIN_CACHE_MS = 1_000
MIN_SERVICE_STATUS_MS = 5_000
MIN_SERVER_STATUS_MS = 1_000
LONG_DIGITS_MAX = 18
LONG_BOUND = 10**LONG_DIGITS_MAX
ENTRIES_MAX = 1_000
PUSH_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def is_served(status: str, *, is_read: bool) -> bool:
    """Return whether clients' reads, or writes, are answered while a node reports this status, one of ``STATUSES``.

    Source: Nacos 1.4.1 TrafficReviseFilter.
    """
    return status in ("UP", "READ_ONLY" if is_read else "WRITE_ONLY")


@dataclass(frozen=True, slots=True)
class CheckParams:
    """How often an active check runs: between ``min`` and ``max`` ms, moving by ``factor``."""

    max: int
    min: int
    factor: float


@dataclass(frozen=True, slots=True)
class SwitchDomain:
    """All switches, in the order and with the defaults of Nacos 1.4.1 SwitchDomain. Field names: see ``to_json``."""

    masters: tuple[str, ...] | None = None
    ad_weight_map: Mapping[str, int] = field(default_factory=dict)
    default_push_cache_millis: int = 10_000
    client_beat_interval: int = 5_000
    default_cache_millis: int = 3_000
    distro_threshold: float = 0.7
    health_check_enabled: bool = True
    auto_change_health_check_enabled: bool = True
    distro_enabled: bool = True
    enable_standalone: bool = True
    push_enabled: bool = True
    check_times: int = 3
    http_health_params: CheckParams = CheckParams(5_000, 500, 0.85)
    tcp_health_params: CheckParams = CheckParams(5_000, 1_000, 0.75)
    mysql_health_params: CheckParams = CheckParams(3_000, 2_000, 0.65)
    incremental_list: tuple[str, ...] = ()
    server_status_synchronization_period_millis: int = 2_000
    service_status_synchronization_period_millis: int = 5_000
    disable_add_i_p: bool = False
    send_beat_only: bool = False
    light_beat_enabled: bool = True
    limited_url_map: Mapping[str, int] = field(default_factory=dict)
    distro_server_expired_millis: int = 10_000
    push_go_version: str = "0.1.0"
    push_java_version: str = "0.1.0"
    push_python_version: str = "0.4.3"
    push_c_version: str = "1.0.12"
    push_c_sharp_version: str = "0.9.0"
    enable_authentication: bool = False
    overridden_server_status: str | None = None
    default_instance_ephemeral: bool = True
    health_check_white_list: tuple[str, ...] = ()
    name: str = SWITCH_DOMAIN_NAME
    checksum: None = None

    def to_json(self) -> dict[str, Any]:
        """Return the switches as ``GET /operator/switches`` shows them: camelCase, nulls present."""
        return {_camel(one.name): _plain(getattr(self, one.name)) for one in fields(self)}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _plain(value: Any) -> Any:
    match value:
        case CheckParams():
            return {"max": value.max, "min": value.min, "factor": value.factor}
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
        case _:
            return value


FIELDS = {_camel(one.name): one for one in fields(SwitchDomain)}
FIXED = {"name", "checksum", "enableStandalone", "pushCSharpVersion", "healthCheckWhiteList"}
"""Fields that a batch does not set. Source: Nacos 1.4.1 SwitchManager.update, which copies all others."""


def from_json(body: Mapping[str, Any], base: SwitchDomain) -> SwitchDomain:
    """Return ``base`` with the fields of a switches JSON; absent fields stay.

    Raises:
        InvalidParam: a field has another type, or a value that is not allowed; the text names it.
    """
    changes = {
        FIELDS[name].name: _read(name, value, getattr(base, FIELDS[name].name))
        for name, value in body.items()
        if name in FIELDS and name not in FIXED
    }
    domain = replace(base, **changes)
    checked = (domain.http_health_params, domain.tcp_health_params)
    if min(params.min for params in checked) < MIN_CHECK_MS:
        raise InvalidParam("min check time for http or tcp is too small(<500)")
    if min(params.max for params in checked) < MIN_CHECK_MAX_MS:
        raise InvalidParam("max check time for http or tcp is too small(<3000)")
    if not all(0 <= params.factor <= 1 for params in (*checked, domain.mysql_health_params)):
        raise InvalidParam("malformed factor")
    for url, code in domain.limited_url_map.items():
        _check_limited_url(url, code)
    for name, bound in _LEAST.items():
        if getattr(domain, name) < bound:
            raise InvalidParam(f"field '{_camel(name)}' of the switches should be at least {bound}")
    if not domain.distro_threshold > 0:
        raise InvalidParam(f"distroThreshold can not be zero or negative: {domain.distro_threshold}")
    return domain


_LEAST = {"check_times": 1, "client_beat_interval": 1, "default_cache_millis": 1, "default_push_cache_millis": 1}
"""The lowest values that work. Nacos has higher bounds for some of them, but not in a batch."""


def _read(name: str, value: Any, old: Any) -> Any:
    match old:
        case _ if name == "overriddenServerStatus":
            return None if value is None else _status(value)
        case _ if name == "masters":
            return None if value is None else tuple(_texts(name, value))
        case bool() if isinstance(value, bool):
            return value
        case int() if not isinstance(old, bool) and _is_long(value):
            return value
        case float() if _is_long(value) or (isinstance(value, float) and math.isfinite(value)):
            return float(value)
        case str() if isinstance(value, str):
            return value
        case tuple() if value is None or isinstance(value, list):
            return tuple(_texts(name, value or []))
        case CheckParams() if isinstance(value, Mapping):
            return _check_params(name, value)
        case Mapping() if value is None or isinstance(value, Mapping):
            return _counts(name, value or {})
        case _:
            raise InvalidParam(f"field '{name}' of the switches has a value that is not allowed: {value!r:.100}")


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LONG_BOUND


def _texts(name: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) > ENTRIES_MAX or not all(isinstance(one, str) for one in value):
        raise InvalidParam(f"field '{name}' of the switches should be a list of texts")
    return value


def _counts(name: str, value: Mapping[str, Any]) -> dict[str, int]:
    if len(value) > ENTRIES_MAX or not all(map(_is_long, value.values())):
        raise InvalidParam(f"field '{name}' of the switches should be an object of numbers")
    return dict(value)


def _check_params(name: str, value: Mapping[str, Any]) -> CheckParams:
    numbers = [value.get("max"), value.get("min"), value.get("factor")]
    if not all(_is_long(one) or isinstance(one, float) for one in numbers):
        raise InvalidParam(f"field '{name}' of the switches should have numbers max, min and factor")
    if not all(abs(one) <= CHECK_MS_MAX for one in numbers if one is not None):
        raise InvalidParam(f"field '{name}' of the switches should have numbers of at most {CHECK_MS_MAX}")
    return CheckParams(int(value["max"]), int(value["min"]), float(value["factor"]))


def update(domain: SwitchDomain, entry: str, value: str) -> SwitchDomain:
    """Return the switches after one entry was set. An unknown entry changes nothing.

    Raises:
        InvalidParam: with the text of Nacos 1.4.1 SwitchManager.update.
    """
    change = ENTRIES.get(entry)
    return change(domain, value) if change else domain


def _long(value: str) -> int:
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{LONG_DIGITS_MAX}}}", value):
        raise InvalidParam(f'For input string: "{value[:100]}"')
    return int(value)


def _at_least(minimum: int, text: str, maximum: int = LONG_BOUND) -> Callable[[str], int]:
    def read(value: str) -> int:
        if (number := _long(value)) < minimum:
            raise InvalidParam(text)
        if number > maximum:
            raise InvalidParam(f'For input string: "{value}"')
        return number

    return read


def single_precision(number: float) -> float:
    """Return the shortest decimal of Java's float that is nearest to a number.

    Raises:
        OverflowError: it is beyond the range of a float.
    """
    if not math.isfinite(number):
        raise OverflowError("not a finite number")
    nearest: float = struct.unpack("<f", struct.pack("<f", number))[0]
    decimals = (float(f"{nearest:.{digits}g}") for digits in range(1, 10))  # nine digits tell any two floats apart
    # Fewer digits of the largest float are more than a float can be: c_float makes an infinity of them.
    return next(one for one in decimals if c_float(one).value == nearest)


def _threshold(value: str) -> float:
    try:
        number = single_precision(float(value.replace("_", "x")))  # Python reads 1_0 as a number
    except (ValueError, OverflowError):
        raise InvalidParam(f'For input string: "{value[:100]}"') from None
    if not number > 0:
        raise InvalidParam(f"distroThreshold can not be zero or negative: {number}")
    return number


def _status(value: Any) -> str | None:
    """Refuse a wrong name, which stops real Nacos's status for good. ``null`` clears."""
    if value in ("", "null"):
        return ""
    if value not in STATUSES:
        raise InvalidParam(f"overriddenServerStatus should be one of {', '.join(STATUSES)} or null: {value!r:.100}")
    return str(value)


def _limited_urls(domain: SwitchDomain, value: str) -> SwitchDomain:
    if not value:
        return domain
    limits: dict[str, int] = {}
    for entry in value.split(","):
        parts = entry.split(":")
        if len(parts) != 2:
            raise InvalidParam("invalid input for limited urls")
        url, code = parts
        if not url:
            raise InvalidParam(f"url can not be empty, url: {url}")
        limits[url] = _long(code)
        _check_limited_url(url, limits[url])
    if len(limits) > ENTRIES_MAX:
        raise InvalidParam("invalid input for limited urls")
    return replace(domain, limited_url_map=limits)


def _check_limited_url(url: str, code: int) -> None:
    # Nacos accepts any positive number. HTTP knows only these, and a client cannot read an answer with another.
    if not url or not 200 <= code <= 599:
        raise InvalidParam(f"illegal normal status code: {code}")


def _push_version(domain: SwitchDomain, value: str) -> SwitchDomain:
    kind, colon, version = value.partition(":")
    if not colon or not PUSH_VERSION.fullmatch(version):
        raise InvalidParam("illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+")
    names = {
        "java": "push_java_version",
        "python": "push_python_version",
        "c": "push_c_version",
        "go": "push_go_version",
    }
    if kind not in names:
        raise InvalidParam(f"unsupported client type: {kind[:100]}")
    return _set(names[kind], str)(domain, version)


def _set(name: str, read: Callable[[str], Any]) -> Callable[[SwitchDomain, str], SwitchDomain]:
    def change(domain: SwitchDomain, value: str) -> SwitchDomain:
        changed: dict[str, Any] = {name: read(value)}
        return replace(domain, **changed)

    return change


def _masters(value: str) -> tuple[str, ...]:
    masters = tuple(value.split(","))
    if len(masters) > ENTRIES_MAX:
        raise InvalidParam(f"masters should be at most {ENTRIES_MAX}")
    return masters


ENTRIES: Mapping[str, Callable[[SwitchDomain, str], SwitchDomain]] = {
    "distroThreshold": _set("distro_threshold", _threshold),
    "clientBeatInterval": _set("client_beat_interval", _at_least(1, "clientBeatInterval is too small(<1)")),
    "pushVersion": _push_version,
    "pushCacheMillis": _set(
        "default_push_cache_millis",
        _at_least(MIN_PUSH_CACHE_MS, "min cache time for http or tcp is too small(<10000)"),
    ),
    "defaultCacheMillis": _set(
        "default_cache_millis", _at_least(MIN_CACHE_MS, "min default cache time  is too small(<1000)")
    ),
    "masters": _set("masters", _masters),
    "distro": _set("distro_enabled", strict_bool),
    "check": _set("health_check_enabled", strict_bool),
    "pushEnabled": _set("push_enabled", strict_bool),
    "serviceStatusSynchronizationPeriodMillis": _set(
        "service_status_synchronization_period_millis",
        _at_least(MIN_SERVICE_STATUS_MS, "serviceStatusSynchronizationPeriodMillis is too small(<5000)"),
    ),
    "serverStatusSynchronizationPeriodMillis": _set(
        "server_status_synchronization_period_millis",
        _at_least(MIN_SERVER_STATUS_MS, "serverStatusSynchronizationPeriodMillis is too small(<15000)"),
    ),
    "healthCheckTimes": _set("check_times", _at_least(1, "healthCheckTimes is too small(<1)", INT_MAX)),
    "disableAddIP": _set("disable_add_i_p", strict_bool),
    "sendBeatOnly": _set("send_beat_only", strict_bool),
    "limitedUrlMap": _limited_urls,
    "overriddenServerStatus": _set("overridden_server_status", _status),
    "defaultInstanceEphemeral": _set("default_instance_ephemeral", strict_bool),
    "distroServerExpiredMillis": _set(
        "distro_server_expired_millis", _at_least(1, "distroServerExpiredMillis is too small(<1)")
    ),
    "lightBeatEnabled": _set("light_beat_enabled", lenient_bool),
    "autoChangeHealthCheckEnabled": _set("auto_change_health_check_enabled", lenient_bool),
}
"""The switches by entry name. ``batch`` is not here: its value is a whole switches JSON, which the frontend parses."""
