"""The parameters of a call, and the hand-written parsers of the hot calls."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.http.input import json_text
from app.http.input.forms import find_charset, is_form, parse_plain, parse_values, recode
from app.http.input.hot_params import quick_beat, quick_register
from app.http.input.metadata import parse_metadata
from app.http.input.values import java_double, java_int
from app.naming.model.flags import lenient_bool, strict_bool
from app.naming.model.instance_check import check_metadata_size, check_port
from app.naming.model.keys import (
    APP_CHARS_MAX,
    DEFAULT_CLUSTER,
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    TRIMMED,
    check_ip,
    check_printable,
    check_service_format,
    check_text,
    compose_service_name,
)
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import Beat, DeregisterInstance, PatchInstance, RegisterInstance


class Parameters:
    """Query and form of one call; the query's values come first, and of several values the first counts."""

    __slots__ = ("_charset", "_values", "plain")

    def __init__(self, values: Mapping[str, str], *, plain: bool = False) -> None:
        self._values = values
        self._charset = find_charset(values.get("encoding"))
        self.plain = values if plain and self._charset is None else None
        """The values, if they are printable ASCII without blanks; else None."""

    @classmethod
    def of(cls, raw_query: bytes, content_type: str, body: bytes, method: str) -> "Parameters":
        values = parse_plain(raw_query) if raw_query else {}
        if body and values is not None:
            form = parse_plain(body.removesuffix(b"&")) if is_form(method, content_type) else None
            values = None if form is None else {**form, **values}
        if values:
            return cls(values, plain=True)
        return cls(parse_values(raw_query, content_type, body, method))

    def get(self, name: str) -> str | None:
        """The value as it was sent, read in the charset that ``encoding`` names; None when absent."""
        value = self._values.get(name)
        return value if value is None or self._charset is None else recode(value, self._charset)

    def required(self, name: str) -> str:
        """The trimmed value; blanks count as a value, which is then empty.

        Raises:
            InvalidParam: it is absent or empty.
        """
        value = self.get(name)
        if not value:
            raise InvalidParam(f"Param '{name}' is required.")
        return value.strip(TRIMMED)

    def optional(self, name: str, default: str = "") -> str:
        """The trimmed value; the default when it is absent or blank."""
        return (self.get(name) or "").strip(TRIMMED) or default

    def items(self) -> list[tuple[str, str]]:
        """All names with their values in UTF-8, for a schema or for the member that the call is forwarded to."""
        return [(name, self.get(name) or "") for name in self._values]

    def without(self, *names: str) -> "Parameters":
        """These parameters but for some."""
        return Parameters({name: value for name, value in self._values.items() if name not in names})

    def service_name(self) -> str | None:
        """The full service name, of ``serviceName`` or its old name ``dom``, and ``groupName``; None when absent.

        Source: Nacos 1.4.1 DistroFilter.
        """
        name = self.get("serviceName")
        if not (name and name.strip()):
            # An empty name is still a name, to be refused in other words than a missing one.
            legacy = self.get("dom")
            name = legacy if legacy and legacy.strip() else name
        if not (name and name.strip()):
            return name
        group = self.get("groupName")
        return compose_service_name(name.strip(TRIMMED), group if group and group.strip() else DEFAULT_GROUP)


@dataclass(frozen=True, slots=True)
class DetailQuery:
    """The instance that GET ``/instance`` asks for."""

    namespace: str
    service: str
    ip: str
    port: int
    cluster: str


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query of GET ``/instance/list``. ``clusters`` and ``env`` are repeated in the answer."""

    namespace: str
    service: str
    clusters: str
    healthy_only: bool
    is_check: bool
    env: str
    client_ip: str
    """The address for pushes; empty for the address that the query came from."""
    udp_port: int
    """The port for pushes; 0 or less for no pushes."""
    app: str


def namespace_of(parameters: Parameters) -> str:
    """The namespace that a call names, by default the public one. Its length and ``#`` are checked by the domain.

    Raises:
        InvalidParam: a character is not printable, and would break a log line.
    """
    namespace = parameters.optional("namespaceId", DEFAULT_NAMESPACE)
    check_printable("namespaceId", namespace)
    return namespace


def service_of(parameters: Parameters) -> str:
    """The full name of the service that a call names.

    Raises:
        InvalidParam: it is missing, or not ``group@@name``.
    """
    name = parameters.service_name()
    if not name:
        raise InvalidParam("Param 'serviceName' is required.")
    check_service_format(name)
    return name


def check_numbers(parameters: Parameters) -> None:
    """Refuse a port or weight that is no number, by the parameter's name; v1 refuses it in Java's words, as Nacos does.

    Raises:
        InvalidParam: the text names the parameter.
    """
    for name, read, wanted in (("port", java_int, "a whole number"), ("weight", java_double, "a number")):
        if text := parameters.optional(name):
            try:
                read(text)
            except InvalidParam:
                raise InvalidParam(f"Param '{name}' is illegal, it should be {wanted}.") from None


def _cluster_of(parameters: Parameters) -> str:
    return parameters.optional("clusterName") or parameters.optional("cluster", DEFAULT_CLUSTER)


def parse_register(parameters: Parameters, ephemeral: bool = True) -> RegisterInstance:
    """The command of POST and PUT ``/instance``; ``ephemeral``: the kind of instance when the call names none.

    Raises:
        InvalidParam: the text names the parameter.
    """
    if parameters.plain is not None and (quick := quick_register(parameters.plain, ephemeral)) is not None:
        return quick
    service = service_of(parameters)
    ip, port = parameters.required("ip"), java_int(parameters.required("port"))
    weight = java_double(parameters.optional("weight", "1"))
    metadata = parse_metadata(parameters.optional("metadata"))
    app = parameters.optional("app", "DEFAULT")
    check_ip(ip)
    check_port(port)
    check_text("app", app, APP_CHARS_MAX)
    return RegisterInstance(
        service=service,
        ip=ip,
        port=port,
        namespace=namespace_of(parameters),
        cluster=_cluster_of(parameters),
        weight=weight,
        healthy=lenient_bool(parameters.optional("healthy", "true")),
        enabled=lenient_bool(parameters.optional("enabled") or parameters.optional("enable", "true")),
        ephemeral=_ephemeral_of(parameters, ephemeral),
        metadata=metadata,
        app=app,
    )


def parse_register_persistent(parameters: Parameters) -> RegisterInstance:
    """As ``parse_register``, where an instance is persistent when the call names no kind."""
    return parse_register(parameters, ephemeral=False)


def _ephemeral_of(parameters: Parameters, default: bool) -> bool:
    text = parameters.optional("ephemeral")
    return lenient_bool(text) if text else default


def parse_deregister(parameters: Parameters, ephemeral: bool = True) -> DeregisterInstance:
    """The command of DELETE ``/instance``; ``ephemeral``: the kind of instance when the call names none.

    Raises:
        InvalidParam: the text names the parameter.
    """
    ip, port = parameters.required("ip"), java_int(parameters.required("port"))
    java_double(parameters.optional("weight", "1"))
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
    ip, port = parameters.required("ip"), java_int(parameters.required("port"))
    metadata, weight = parameters.optional("metadata"), parameters.optional("weight")
    healthy, enabled = parameters.optional("healthy"), parameters.optional("enabled")
    app = parameters.optional("app")
    check_text("app", app, APP_CHARS_MAX)
    return PatchInstance(
        service=service,
        ip=ip,
        port=port,
        namespace=namespace_of(parameters),
        cluster=_cluster_of(parameters),
        # A patch to the JSON text null empties the map: None would leave it alone.
        metadata=(parse_metadata(metadata) or {}) if metadata else None,
        app=app or None,
        weight=java_double(weight) if weight else None,
        healthy=lenient_bool(healthy) if healthy else None,
        enabled=lenient_bool(enabled) if enabled else None,
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
        ip=parameters.required("ip"),
        port=java_int(parameters.required("port")),
        cluster=parameters.optional("clusterName", DEFAULT_CLUSTER),
    )


def parse_list(parameters: Parameters, service: str | None = None) -> ListQuery:
    """The query of GET ``/instance/list``; ``service``: its full name, where the call does not name it as usual.

    Raises:
        InvalidParam: the text names the parameter.
    """
    return ListQuery(
        namespace=namespace_of(parameters),
        service=service_of(parameters) if service is None else service,
        clusters=parameters.optional("clusters"),
        healthy_only=strict_bool(parameters.optional("healthyOnly")),
        is_check=strict_bool(parameters.optional("isCheck")),
        env=parameters.optional("env"),
        client_ip=parameters.optional("clientIP"),
        udp_port=java_int(parameters.optional("udpPort", "0")),
        app=parameters.optional("app"),
    )


def parse_beat(parameters: Parameters, service: str | None = None) -> Beat:
    """The command of PUT ``/instance/beat``: a full beat when it brings a ``beat`` object, else a light one.

    ``service``: its full name, where the call does not name it as usual.

    Raises:
        InvalidParam: the text names the parameter, or the field of the object.
    """
    if service is None:
        if parameters.plain is not None and (quick := quick_beat(parameters.plain)) is not None:
            return quick
        service = service_of(parameters)
    namespace = namespace_of(parameters)
    cluster = parameters.optional("clusterName", DEFAULT_CLUSTER)
    ip, port = parameters.optional("ip"), java_int(parameters.optional("port", "0"))
    text = parameters.optional("beat")
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
