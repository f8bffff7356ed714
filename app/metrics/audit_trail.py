"""The audit trail: who changed what, from where, with the values before and after, as lines of JSON in a file."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from app.config.observability import Observability
from app.metrics.line_file import LineFile
from app.naming.records.record_keys import (
    NamespaceKey,
    PersistentKey,
    ServiceMetaKey,
    SwitchesKey,
    parse_record_key,
)

VALUE_BYTES_MAX = 16_384
"""Of the values before and after: larger ones are left out."""
SECRET_WORDS = ("password", "passwd", "pwd", "secret", "token", "hash", "salt", "authorization")
HIDDEN = "***"
_INSTANCE_FIELDS = {
    "ip": "ip",
    "port": "port",
    "cluster": "cluster",
    "cluster_name": "cluster",
    "weight": "weight",
    "healthy": "healthy",
    "enabled": "enabled",
    "ephemeral": "ephemeral",
    "metadata": "metadata",
    "app": "app",
}


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a change. ``user`` is empty without a login; ``via``: the member that passed the call on."""

    address: str
    user: str = ""
    agent: str = ""
    via: str = ""


NODE = Actor("", "node")
"""What a node does by itself."""
_acting: ContextVar[Actor] = ContextVar("acting", default=NODE)


def acting() -> Actor:
    """Who acts on this thread now; the node itself outside of ``acting_as``."""
    return _acting.get()


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Let what this thread changes in the body be written as the actor's doing."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


class AuditTrail:
    """Takes changes of any thread, at once. No level of any logger silences it."""

    def __init__(self, settings: Observability, node: str, wall_ms: Callable[[], int]) -> None:
        self._on = settings.audit
        self.covers_instances = settings.audit and settings.audit_instances
        """Whether registrations are written: asked before what they replace is looked up."""
        self._node = node
        self._wall_ms = wall_ms
        self._file = LineFile(
            "audit", settings.audit_file, settings.log_file_bytes, settings.log_files, self._line_of_lost
        )

    def write(
        self, what: str, key: str, *, before: object = None, after: object = None, actor: Actor | None = None
    ) -> None:
        """Write one change. ``what``: its kind and verb, as ``namespace.create``; the values become JSON later.

        The values must not change afterwards; of two objects, the fields that differ are written. Without ``actor`` it
        is the one of ``acting_as``.
        """
        if not self._on:
            return
        at_ms, who = self._wall_ms(), actor or acting()
        self._file.add(lambda: self._line(at_ms, who, what, key, before, after))

    def on_record(self, key: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        """Write the change of a durable record that was made here, by whoever acts."""
        kind, shown = _kind_of(key)
        if kind == "instance" and not self.covers_instances:
            return
        verb = "create" if before is None else "remove" if after is None else "update"
        self.write(f"{kind}.{verb}", shown, before=before, after=after)

    def counters(self) -> dict[str, int]:
        """Lines since the start, by what became of them."""
        return {f"audit_lines_{name}": count for name, count in asdict(self._file.stats).items()}

    def stop(self, timeout_s: float) -> bool:
        """Write what waits; return whether that took under ``timeout_s``. May be called twice."""
        return self._file.stop(timeout_s)

    def _line(self, at_ms: int, who: Actor, what: str, key: str, before: object, after: object) -> str:
        old, new = _differing(_fields_of(before), _fields_of(after))
        fields: dict[str, Any] = {
            "time": time_text(at_ms),
            "node": self._node,
            "user": who.user,
            "from": who.address,
            "via": who.via,
            "agent": who.agent,
            "what": what,
            "key": key,
            "before": _shown(old),
            "after": _shown(new),
        }
        return json_line({name: value for name, value in fields.items() if value not in ("", None)})

    def _line_of_lost(self, count: int) -> str:
        return json_line({"time": time_text(self._wall_ms()), "node": self._node, "what": "lost", "lines": count})


def time_text(wall_ms: int) -> str:
    """A time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_line(fields: Mapping[str, Any]) -> str:
    """One line of JSON, whatever callers put into it: lone surrogates, which have no UTF-8, as question marks."""
    try:
        line = orjson.dumps(fields).decode()
    except TypeError:
        line = orjson.dumps(_plain(fields)).decode()
    return line if line.isprintable() else json.dumps(orjson.loads(line))  # which escapes what is not ASCII


def _plain(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {str(_plain(str(name))): _plain(one) for name, one in value.items()}
        case list() | tuple() | frozenset() | set():
            return [_plain(one) for one in value]
        case int() | float() | None:
            return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)
        case _:
            return str(value)


def _fields_of(value: object) -> object:
    """An instance, or a command about one, by the fields that the two have in common; any other value as it is."""
    if not isinstance(value, tuple) and not is_dataclass(value):
        return value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return value
    found = {_INSTANCE_FIELDS[name]: getattr(value, name) for name in _INSTANCE_FIELDS if hasattr(value, name)}
    return {name: one for name, one in found.items() if one is not None}


def _differing(before: object, after: object) -> tuple[object, object]:
    """Of two objects, the fields that differ; anything else as it is."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return before, after
    absent = object()
    names = [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]
    return tuple({name: one[name] for name in names if name in one} for one in (before, after))  # type: ignore[return-value]


def _shown(value: object) -> object:
    """A value as it may stand in the trail: without secrets, and not without bound."""
    shown = hide_secrets([_fields_of(one) for one in value] if type(value) is list else value)
    size = len(json_line({"value": shown}))
    return shown if size <= VALUE_BYTES_MAX else f"{size} bytes, left out"


def hide_secrets(value: object) -> object:
    """A copy of a value in which fields with the names of secrets are hidden, at any depth."""
    match value:
        case Mapping():
            return {
                name: HIDDEN if any(word in str(name).lower() for word in SECRET_WORDS) else hide_secrets(one)
                for name, one in value.items()
            }
        case list() | tuple():
            return [hide_secrets(one) for one in value]
        case _:
            return value


def _kind_of(key: str) -> tuple[str, str]:
    """The kind of a durable record, and its key as it is shown."""
    match parse_record_key(key):
        case ServiceMetaKey(namespace, name):
            return "service", f"{namespace}/{name}"
        case PersistentKey(namespace, name, instance):
            return "instance", f"{namespace}/{name}/{instance}"
        case NamespaceKey(namespace):
            return "namespace", namespace
        case SwitchesKey():
            return "switches", "switches"
        case _:
            kind, _, name = key.removeprefix("rollcall.").partition(".")
            return (kind, name) if name else ("record", key)
