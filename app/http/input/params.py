"""The hand-written parsers of the hot calls.

The functions ``hot_…`` read registrations, deregistrations and full beats as SDKs and curl send them. Each takes
plain values (see ``Parameters.plain``) and returns the command that the general parser makes of them. It returns None
for values out of the ordinary: those go to the general parser, which alone words the refusals.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from app.http.input import instance_schemas as rows
from app.http.input import json_text
from app.http.input.fields import Parameter
from app.http.input.forms import GROUP_NAME, NAMESPACE_ID, SERVICE_NAME, Parameters, namespace_of, service_of
from app.http.input.instance_schemas import DetailQuery, ListQuery
from app.http.input.json_text import parse_metadata
from app.http.input.values import java_double
from app.naming.model.json_fields import lenient_bool
from app.naming.model.keys import (
    APP_CHARS_MAX,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    PORT_MAX,
    check_ip,
    check_metadata_size,
    check_port,
    check_service_format,
    check_text,
    compose_service_name,
    is_four_numbers,
)
from app.naming.model.model import Metadata
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance

KEPT_CHARS_MAX = 512
"""Longer texts are not cached, as any client may send them."""
PORT_DIGITS_MAX = 5
_TRUE = "true"
"""The text of nearly all flags."""
_IP, _PORT, _CLUSTER_NAME, _CLUSTER = rows.IP.key, rows.PORT.key, rows.CLUSTER_NAME.key, rows.CLUSTER.key
_WEIGHT, _METADATA, _APP = rows.WEIGHT.key, rows.METADATA.key, rows.APP.key
_HEALTHY, _ENABLED, _ENABLE = rows.HEALTHY.key, rows.ENABLED.key, rows.ENABLE.key
_EPHEMERAL, _BEAT, _BEAT_PORT = rows.EPHEMERAL.key, rows.BEAT.key, rows.BEAT_PORT.key
_CLUSTER_DEFAULT, _APP_DEFAULT = rows.CLUSTER_NAME.load_default, rows.APP.load_default
_HEALTHY_DEFAULT, _ENABLE_DEFAULT = rows.HEALTHY.load_default, rows.ENABLE.load_default
"""The names and defaults of rows, bound once: reading them of the rows would cost a parser 3 % of its time."""
_USUAL_WEIGHT, _NO_PORT = str(rows.WEIGHT.load_default), str(rows.BEAT_PORT.load_default)
_NUMBERS: tuple[tuple[Parameter[Any], str], ...] = ((rows.PORT, "a whole number"), (rows.WEIGHT, "a number"))
# ``_new_tuple(C, (...))`` is ``C(...)`` without its function in Python.
_new_tuple = tuple.__new__
_LONG_EXPONENT = "0000000"
"""Zeros in front of an exponent: the general parser refuses one of over nine digits, orjson reads it."""


def check_numbers(parameters: Parameters) -> None:
    """Refuse a port or weight that is not a number, by the parameter's name; v1 refuses it in Java's words, as Nacos
    does.

    Raises:
        InvalidParam: the text names the parameter.
    """
    for row, wanted in _NUMBERS:
        try:
            parameters.given(row)
        except InvalidParam:
            raise InvalidParam(f"Param '{row.key}' is illegal, it should be {wanted}.") from None


def _cluster_of(parameters: Parameters) -> str:
    return parameters.optional(_CLUSTER_NAME) or parameters.optional(_CLUSTER, _CLUSTER_DEFAULT)


def parse_register(parameters: Parameters, ephemeral: bool = True) -> RegisterInstance:
    """The command of POST and PUT ``/instance``; ``ephemeral``: the kind of instance when the call names none.

    Raises:
        InvalidParam: the text names the parameter.
    """
    if parameters.plain is not None and (hot := hot_register(parameters.plain, ephemeral)) is not None:
        return hot
    service = service_of(parameters)
    ip, port = parameters.required(_IP), rows.PORT.read(parameters.required(_PORT))
    weight = parameters.value(rows.WEIGHT)
    metadata = parse_metadata(parameters.optional(_METADATA))
    app = parameters.optional(_APP, _APP_DEFAULT)
    check_ip(ip)
    check_port(port)
    check_text(_APP, app, APP_CHARS_MAX)
    enabled = parameters.given(rows.ENABLED)
    return RegisterInstance(
        service=service,
        ip=ip,
        port=port,
        namespace=namespace_of(parameters),
        cluster=_cluster_of(parameters),
        weight=weight,
        healthy=parameters.value(rows.HEALTHY),
        enabled=parameters.value(rows.ENABLE) if enabled is None else enabled,
        ephemeral=_ephemeral_of(parameters, ephemeral),
        metadata=metadata,
        app=app,
    )


def parse_register_persistent(parameters: Parameters) -> RegisterInstance:
    """As ``parse_register``, where an instance is persistent when the call names no kind."""
    return parse_register(parameters, ephemeral=False)


def _ephemeral_of(parameters: Parameters, default: bool) -> bool:
    given = parameters.given(rows.EPHEMERAL)
    return default if given is None else given


def parse_deregister(parameters: Parameters, ephemeral: bool = True) -> DeregisterInstance:
    """The command of DELETE ``/instance``; ``ephemeral``: the kind of instance when the call names none.

    Raises:
        InvalidParam: the text names the parameter.
    """
    if parameters.plain is not None and (hot := hot_deregister(parameters.plain, ephemeral)) is not None:
        return hot
    ip, port = parameters.required(_IP), rows.PORT.read(parameters.required(_PORT))
    parameters.given(rows.WEIGHT)
    return DeregisterInstance(
        service=service_of(parameters),
        ip=ip,
        port=port,
        namespace=namespace_of(parameters),
        cluster=_cluster_of(parameters),
        ephemeral=_ephemeral_of(parameters, ephemeral),
    )


def parse_patch(parameters: Parameters) -> PatchInstance:
    """The command of PATCH ``/instance``; a blank attribute is left alone.

    Raises:
        InvalidParam: the text names the parameter.
    """
    service = service_of(parameters)
    ip, port = parameters.required(_IP), rows.PORT.read(parameters.required(_PORT))
    app = parameters.optional(_APP)
    check_text(_APP, app, APP_CHARS_MAX)
    return PatchInstance(
        service=service,
        ip=ip,
        port=port,
        namespace=namespace_of(parameters),
        cluster=_cluster_of(parameters),
        # The row reads the JSON text null as an empty map, which empties the instance's: None leaves that alone.
        metadata=parameters.given(rows.METADATA),
        app=app or None,
        weight=parameters.given(rows.WEIGHT),
        healthy=parameters.given(rows.HEALTHY),
        enabled=parameters.given(rows.ENABLED),
    )


def parse_detail(parameters: Parameters) -> DetailQuery:
    """The query of GET ``/instance``, which has no ``cluster`` beside ``clusterName``.

    Raises:
        InvalidParam: the text names the parameter.
    """
    service = service_of(parameters)
    return DetailQuery(
        namespace=namespace_of(parameters),
        service=service,
        ip=parameters.required(_IP),
        port=rows.PORT.read(parameters.required(_PORT)),
        cluster=parameters.optional(_CLUSTER_NAME, _CLUSTER_DEFAULT),
    )


def parse_list(parameters: Parameters, service: str | None = None) -> ListQuery:
    """The query of GET ``/instance/list``; ``service``: its full name, where the call does not name it as usual.

    Raises:
        InvalidParam: the text names the parameter.
    """
    return ListQuery(
        namespace=namespace_of(parameters),
        service=service_of(parameters) if service is None else service,
        clusters=parameters.optional(rows.CLUSTERS.key),
        healthy_only=parameters.value(rows.HEALTHY_ONLY),
        is_check=parameters.value(rows.IS_CHECK),
        env=parameters.optional(rows.ENV.key),
        client_ip=parameters.optional(rows.CLIENT_IP.key),
        udp_port=parameters.value(rows.UDP_PORT),
        app=parameters.optional(rows.SUBSCRIBER_APP.key),
    )


def parse_beat(parameters: Parameters, service: str | None = None) -> Beat:
    """The command of PUT ``/instance/beat``: a full beat when it brings a ``beat`` object, else a light one.

    ``service``: its full name, where the call does not name it as usual.

    Raises:
        InvalidParam: the text names the parameter, or the field of the object.
    """
    if service is None:
        if parameters.plain is not None and (hot := hot_beat(parameters.plain)) is not None:
            return hot
        service = service_of(parameters)
    namespace = namespace_of(parameters)
    cluster = parameters.optional(_CLUSTER_NAME, _CLUSTER_DEFAULT)
    ip, port = parameters.optional(rows.BEAT_IP.key), parameters.value(rows.BEAT_PORT)
    text = parameters.optional(_BEAT)
    if not text:
        return Beat(service=service, ip=ip, port=port, namespace=namespace, cluster=cluster)
    fields = json_text.beat_fields(text)
    beat = Beat(
        service=service,
        ip=fields.text("ip") or ip,
        port=fields.whole("port", port),
        namespace=namespace,
        cluster=fields.text("cluster") or cluster,
        full=True,
        weight=fields.number("weight", 0.0),
        metadata=fields.metadata("metadata"),
        ephemeral=fields.flag("ephemeral", default=True),
    )
    check_ip(beat.ip)
    check_port(beat.port)
    check_metadata_size(beat.metadata)
    return beat


# --- plain values ----------------------------------------------------------------------------------


@lru_cache(1_024)
def _hot_port(text: str | None) -> int | None:
    if text and text.isdecimal() and len(text) <= PORT_DIGITS_MAX and (port := int(text)) <= PORT_MAX:
        return port
    return None


def hot_service(get: Callable[[str], str | None]) -> str | None:
    name, group = get(SERVICE_NAME), get(GROUP_NAME) or DEFAULT_GROUP
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
def hot_metadata(text: str) -> Metadata | None:
    """The metadata in a text, one map for all equal texts; None when the text is not metadata."""
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


def hot_register(values: Mapping[str, str], ephemeral: bool) -> RegisterInstance | None:
    """The command of a registration; None for values that the general parser must read.

    ``ephemeral``: the kind of instance when the call names none.
    """
    get = values.get
    ip, port, service = get(_IP), _hot_port(get(_PORT)), hot_service(get)
    if not ip or port is None or service is None or not is_four_numbers(ip):
        return None
    weight_text, text, app = get(_WEIGHT) or _USUAL_WEIGHT, get(_METADATA) or "", get(_APP) or _APP_DEFAULT
    if len(text) > KEPT_CHARS_MAX or len(app) > KEPT_CHARS_MAX or len(weight_text) > KEPT_CHARS_MAX:
        return None
    weight, metadata = _weight(weight_text), hot_metadata(text)
    if weight is None or metadata is None:
        return None
    fields = (
        service,
        ip,
        port,
        get(NAMESPACE_ID) or DEFAULT_NAMESPACE,
        get(_CLUSTER_NAME) or get(_CLUSTER) or _CLUSTER_DEFAULT,
        weight,
        (flag := get(_HEALTHY)) == _TRUE or _flag(flag, _HEALTHY_DEFAULT),
        (flag := get(_ENABLED) or get(_ENABLE)) == _TRUE or _flag(flag, _ENABLE_DEFAULT),
        (flag := get(_EPHEMERAL)) == _TRUE or _flag(flag, ephemeral),
        metadata,
        app,
        "",
    )
    return _new_tuple(RegisterInstance, fields)


def hot_deregister(values: Mapping[str, str], ephemeral: bool) -> DeregisterInstance | None:
    """The command of a deregistration; None for values that the general parser must read.

    ``ephemeral``: the kind of instance when the call names none.
    """
    get = values.get
    ip, port, service = get(_IP), _hot_port(get(_PORT)), hot_service(get)
    # Nobody needs the weight, but one that is no number is refused.
    if not ip or port is None or service is None or get(_WEIGHT):
        return None
    return DeregisterInstance(
        service,
        ip,
        port,
        get(NAMESPACE_ID) or DEFAULT_NAMESPACE,
        get(_CLUSTER_NAME) or get(_CLUSTER) or _CLUSTER_DEFAULT,
        (flag := get(_EPHEMERAL)) == _TRUE or _flag(flag, ephemeral),
    )


def _flag(text: str | None, default: bool) -> bool:
    return lenient_bool(text) if text else default


def _is_of_texts(fields: Any) -> bool:
    if type(fields) is not dict:
        return False
    for one in fields.values():  # noqa: SIM110  # nearly all have few values: a generator would take twice as long
        if type(one) is not str:
            return False
    return True


def hot_beat(values: Mapping[str, str]) -> Beat | None:
    """The command of a full beat; None for values that the general parser must read.

    The fields of its JSON must have the types that SDKs give them.
    """
    get = values.get
    text, service = get(_BEAT), hot_service(get)
    if not text or len(text) > KEPT_CHARS_MAX or service is None or _hot_port(get(_BEAT_PORT) or _NO_PORT) is None:
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
    if type(ip) is not str or not is_four_numbers(ip) or type(port) is not int or not 0 <= port <= PORT_MAX:
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
        get(NAMESPACE_ID) or DEFAULT_NAMESPACE,
        cluster,
        True,
        float(weight),
        metadata,
        ephemeral,
    )
