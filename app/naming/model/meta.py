"""A service's description: protect threshold, metadata, selector, and the health check settings of its clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.naming.model.json_fields import FROM_RECORD, Fields
from app.naming.model.keys import Metadata, check_cluster_chars, metadata_bytes
from app.naming.model.nacos_errors import InvalidParam

HTTP_STATUS_OK = 200
STATUS_DIGITS_MAX = 9
DEFAULT_PORT = 80
TEXT_CHARS_MAX = 2_048
CONSUMER, PROVIDER = "CONSUMER.label.", "PROVIDER.label."


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses the instances for a client.

    Only stored and shown: without a source of labels every selector passes all.
    """

    kind: str = "none"
    expression: str = ""
    labels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return Nacos's JSON of a selector."""
        if self.kind == "none":
            return {"type": "none"}
        return {"type": self.kind, "expression": self.expression, "labels": list(self.labels)}


NO_SELECTOR = Selector()


def label_selector(expression: str) -> Selector:
    """Return the selector of an expression ``CONSUMER.label.A = PROVIDER.label.A & ...``.

    Raises:
        InvalidParam: Source: Nacos 1.4.1 LabelSelector.ExpressionInterpreter.
    """
    if len(expression) > TEXT_CHARS_MAX:
        raise InvalidParam("parse expression failed!")
    labels: list[str] = []
    terms = expression.replace(" ", "").split("&") if expression.strip() else []
    for term in terms:
        consumer, equal, provider = term.partition("=")
        label = consumer.removeprefix(CONSUMER)
        fits = equal and consumer.startswith(CONSUMER) and provider == PROVIDER + label and label
        if not fits:
            raise InvalidParam("parse expression failed!")
        if label not in labels:
            labels.append(label)
    return Selector("label", expression, tuple(labels))


@dataclass(frozen=True, slots=True)
class HealthChecker:
    """The check of a cluster's persistent instances. ``kind``: TCP, HTTP, MYSQL or NONE."""

    kind: str = "TCP"
    path: str = ""
    headers: str = ""
    """``name:value`` pairs with ``|`` between."""
    expected_code: int = HTTP_STATUS_OK
    user: str = ""
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return Nacos's JSON of a checker, with the fields of its type only."""
        match self.kind:
            case "HTTP":
                return {
                    "type": "HTTP",
                    "path": self.path,
                    "headers": self.headers,
                    "expectedResponseCode": self.expected_code,
                }
            case "MYSQL":
                # The field is there for clients that look for it. No password is kept, as nothing here would use it.
                return {"type": "MYSQL", "user": self.user, "pwd": "", "cmd": self.command}
            case _:
                return {"type": self.kind}


TCP_CHECKER = HealthChecker()


def health_checker(fields: Mapping[str, Any]) -> HealthChecker:
    """Return the checker of a JSON object. A missing or unknown type means NONE, as in Nacos 1.4.

    Raises:
        InvalidParam: a field is of another type.
    """

    def text(name: str) -> str:
        value = fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
            raise InvalidParam(f"field '{name}' of 'healthChecker' should be a text of at most {TEXT_CHARS_MAX}")
        return value

    match fields.get("type"):
        case "TCP":
            return TCP_CHECKER
        case "HTTP":
            code = fields.get("expectedResponseCode", HTTP_STATUS_OK)
            if isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) <= STATUS_DIGITS_MAX:
                code = int(code)
            if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code < 10**STATUS_DIGITS_MAX:
                raise InvalidParam("field 'expectedResponseCode' of 'healthChecker' should be an integer")
            return HealthChecker("HTTP", text("path"), text("headers"), code)
        case "MYSQL":
            text("pwd")  # checked, and dropped
            return HealthChecker("MYSQL", user=text("user"), command=text("cmd"))
        case _:
            return HealthChecker("NONE")


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A cluster's own settings. Checks connect to ``check_port`` unless ``use_instance_port`` is set."""

    checker: HealthChecker = TCP_CHECKER
    check_port: int = DEFAULT_PORT
    use_instance_port: bool = True
    metadata: Metadata = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as the service's record has them."""
        return {
            "healthChecker": self.checker.to_json(),
            "checkPort": self.check_port,
            "useInstancePort": self.use_instance_port,
            "metadata": self.metadata,
        }


DEFAULT_CLUSTER_CONFIG = ClusterConfig()


@dataclass(frozen=True, slots=True)
class ServiceMeta:
    """A service's description, a durable record: created with the service or with a cluster's first settings."""

    protect_threshold: float = 0.0
    metadata: Metadata = field(default_factory=dict)
    selector: Selector = NO_SELECTOR
    clusters: Mapping[str, ClusterConfig] = field(default_factory=dict)
    ephemeral: bool | None = None
    """The kind of instances for which HTTP v2 created the service; None for any other service. It does not bind other
    members.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the value of the service's record."""
        value = {
            "protectThreshold": self.protect_threshold,
            "metadata": self.metadata,
            "selector": self.selector.to_json(),
            "clusters": {name: config.to_json() for name, config in self.clusters.items()},
        }
        return value if self.ephemeral is None else {**value, "ephemeral": self.ephemeral}

    def with_cluster(self, name: str, config: ClusterConfig) -> "ServiceMeta":
        """Return the description with the settings of one cluster replaced."""
        return replace(self, clusters={**self.clusters, name: config})


NO_META = ServiceMeta()


def description_bytes(meta: ServiceMeta | None) -> int:
    """Return the bytes of all metadata in a description, its clusters' metadata included."""
    if meta is None:
        return 0
    return metadata_bytes(meta.metadata) + sum(metadata_bytes(one.metadata) for one in meta.clusters.values())


def service_meta(value: Mapping[str, Any]) -> ServiceMeta:
    """Return the description of a record's value.

    Raises:
        InvalidParam: a field is missing or of another type; the text names it.
    """
    fields, selector = Fields(value, FROM_RECORD, " of a service"), value.get("selector")
    clusters = fields.whole_object("clusters") if "clusters" in value else {}
    return ServiceMeta(
        fields.number("protectThreshold"),
        metadata_of(value.get("metadata", {})),
        _selector(selector if isinstance(selector, Mapping) else {}),
        {name: _cluster_config(name, config) for name, config in clusters.items()},
        fields.flag("ephemeral", True) if value.get("ephemeral") is not None else None,
    )


def _selector(fields: Mapping[str, Any]) -> Selector:
    if fields.get("type") != "label":
        return NO_SELECTOR
    expression = fields.get("expression", "")
    if not isinstance(expression, str):
        raise InvalidParam("field 'expression' of a selector should be a text")
    return label_selector(expression)


def _cluster_config(name: str, fields: Any) -> ClusterConfig:
    check_cluster_chars(name)
    if not isinstance(fields, Mapping):
        raise InvalidParam(f"the settings of cluster '{name}' should be an object")
    checker, port = fields.get("healthChecker"), fields.get("checkPort", DEFAULT_PORT)
    if not isinstance(checker, Mapping) or isinstance(port, bool) or not isinstance(port, int):
        raise InvalidParam(f"the settings of cluster '{name}' should have an object healthChecker and a port checkPort")
    return ClusterConfig(
        health_checker(checker),
        port,
        fields.get("useInstancePort") is not False,
        metadata_of(fields.get("metadata", {})),
    )


def metadata_of(value: Any, of: str = "") -> Metadata:
    """Return the metadata in a record's value. ``of`` names its object in the error, as for ``Fields``.

    Raises:
        InvalidParam: it is not an object, or holds a value that is neither a text nor null.
    """
    if not isinstance(value, Mapping) or not all(one is None or isinstance(one, str) for one in value.values()):
        raise InvalidParam(f"field 'metadata'{of} should be an object of texts")
    return dict(value)
