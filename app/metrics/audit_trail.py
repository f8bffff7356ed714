"""The audit trail: who changed what, from where, with the values before and after, as lines of JSON in a file."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from app.config.observability import Observability
from app.metrics.event_memory import ACCESS, EventMemory, kind_of
from app.metrics.line_file import LineFile
from app.metrics.security_log import SECURITY_NAME, Event, SecurityLog
from app.naming.model.ip_addresses import host_port
from app.naming.records.record_keys import (
    NamespaceKey,
    OverrideKey,
    PersistentKey,
    ServiceMetaKey,
    SwitchesKey,
    parse_record_key,
)

VALUE_BYTES_MAX = 16_384
"""The largest value before or after a change. Larger ones are left out."""
FIELDS_MAX = 32
"""The most instances of a list that a line shows with their fields, and not only with their addresses."""
SECRET_WORDS = ("password", "passwd", "pwd", "secret", "token", "hash", "salt", "authorization")
OF_CLIENTS = ("instance.", "client.", "service.", "ownership.")
"""Events that clients or the node itself cause, at any rate. Only the audit log has them."""
HIDDEN = "***"
KEY_CHARS_MAX = 512
"""The longest name of a call in a line, because the caller chooses it."""
DELETE = "\x7f"
PLAIN_CHARS_MAX = 4_096
"""Longer lines are made by the slower way, as are lines that hold secrets."""
_INSTANCE_FIELDS = {
    "ip": "ip",
    "port": "port",
    "cluster": "cluster",
    "cluster_name": "cluster",
    "weight": "weight",
    "healthy": "healthy",
    "enabled": "enabled",
    "ephemeral": "ephemeral",
    "app": "app",
    "metadata": "metadata",
}
_SHOWN = tuple(dict.fromkeys(_INSTANCE_FIELDS.values()))
_SCALARS = frozenset({str, int, float, bool, type(None)})
"""The types of values that hold no names."""


class Actor(NamedTuple):
    """The user or node that makes a change.

    ``user`` is empty without a login; ``via``: the member that forwarded the call.
    """

    address: str
    user: str = ""
    agent: str = ""
    via: str = ""


NODE = Actor("", "node")
"""The actor of changes that the node makes by itself."""
_acting: ContextVar[Actor] = ContextVar("acting", default=NODE)


def acting() -> Actor:
    """Return the current thread's actor; the node itself outside of ``acting_as``."""
    return _acting.get()


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Record the changes that this thread makes in the body as the actor's."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)


class AuditTrail:
    """Records changes from any thread, without waiting. No level of any logger silences it."""

    def __init__(self, settings: Observability, node: str, wall_ms: Callable[[], int]) -> None:
        self.is_on = settings.audit
        """True if changes are written at all."""
        self.covers_instances = settings.audit and settings.audit_instances
        """True if registrations are written. Checked before the replaced values are looked up."""
        self._node = node
        self._wall_ms = wall_ms
        self._file = LineFile(
            "audit", settings.audit_file, settings.log_file_bytes, settings.log_files, self._line_of_lost
        )
        self._members: tuple[str, ...] = ()
        self._states: dict[str, str] = {}
        self._security = SecurityLog(settings, wall_ms, self._line_of_lost, self._line_of_repeated)
        self._logs = settings.audit_file, settings.security_file or settings.audit_file.with_name(SECURITY_NAME)
        self.memory = EventMemory(node, wall_ms())
        """The latest lines of both logs."""

    def write(
        self, what: str, key: str, *, before: object = None, after: object = None, actor: Actor | None = None
    ) -> None:
        """Write one change. ``what``: its kind and verb, as ``namespace.create``. The values become JSON later.

        The values must not change afterwards. Of two objects only the fields that differ are written. Without ``actor``
        the one of ``acting_as`` counts.
        """
        if self.is_on:
            who = actor or acting()
            values = self._wall_ms(), who, what, key, before, after
            self._file.add(partial(self._noted_line, *values))
            if not what.startswith(OF_CLIENTS) and self._security.takes(Event(what, who.address, who.user)):
                self._security.add(partial(self._line, *values))

    def on_access(self, what: str, key: str, who: Actor, why: str = "") -> None:
        """Write only to the security log that a caller logged in, or was refused. ``what``: as ``login.refused``."""
        if self.is_on and self._security.takes(Event(what, who.address, who.user)):
            self._security.add(partial(self._noted_line, self._wall_ms(), who, what, key[:KEY_CHARS_MAX], None, why))

    def write_instance(
        self, verb: str, service: tuple[str, str], key: str, before: object, after: object, actor: Actor
    ) -> None:
        """Write one change of one instance, as ``write`` does; on the event loop, the line is made in its next turn.

        ``service``: namespace and full name. ``key``: the instance key.
        """
        self._file.add_on_loop(partial(self._instance_line, self._wall_ms(), actor, verb, service, key, before, after))

    def make_on_loop(self, soon: Callable[[Callable[[], None]], object] | None) -> None:
        """Let the event loop, whose thread calls this, make its lines itself; with None no longer.

        ``soon``: calls a function in the loop's next turn, as ``loop.call_soon`` does.
        """
        self._file.make_on_loop(soon)

    def on_members(self, members: tuple[str, ...]) -> None:
        """Write which members joined and left the member list since the last call; nothing for the first list."""
        before, self._members = self._members or members, members
        for address in sorted(set(members) ^ set(before)):
            self.write("member.add" if address in members else "member.remove", address, actor=NODE)

    def on_states(self, states: Mapping[str, str]) -> None:
        """Write which other members changed their state since the last call, as this node sees them."""
        before, self._states = self._states, dict(states)
        for address, state in states.items():
            if before.get(address, state) != state:
                self.write("member.state", address, before=before[address], after=state, actor=NODE)

    def recall(self) -> None:
        """Remember what earlier runs of this node wrote last. Reads some MB of the logs."""
        if self.is_on:
            self.memory.recall(*self._logs, OF_CLIENTS)

    @property
    def unmade(self) -> int:
        """The number of changes that were neither written nor remembered, as too many waited."""
        return self._file.unmade

    def on_record(self, key: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> None:
        """Write the change of a durable record that was made here, with the acting user or node."""
        kind, shown = _kind_of(key)
        if kind == "instance" and not self.covers_instances:
            return
        verb = "create" if before is None else "remove" if after is None else "update"
        self.write(f"{kind}.{verb}", shown, before=before, after=after)

    def counters(self) -> dict[str, int]:
        """Return the numbers of written and lost lines since the start."""
        return {
            f"{log}_lines_{name}": count
            for log, stats in (("audit", self._file.stats), ("security", self._security.stats))
            for name, count in asdict(stats).items()
        }

    def stop(self, timeout_s: float) -> bool:
        """Write the waiting lines. Return whether that took under ``timeout_s``. May be called twice."""
        ended = self._security.stop(timeout_s)
        return self._file.stop(timeout_s) and ended

    def _fields(self, at_ms: int, who: Actor, what: str, key: str, before: object, after: object) -> dict[str, Any]:
        """Return the fields of a line, in order. Empty texts and missing values are left out."""
        fields: dict[str, Any] = {"time": time_text(at_ms), "node": self._node}
        if who.user:
            fields["user"] = who.user
        if who.address:
            fields["from"] = who.address
        if who.via:
            fields["via"] = who.via
        if who.agent:
            fields["agent"] = who.agent
        fields["what"] = what
        if key:
            fields["key"] = key
        if before is not None and before != "":
            fields["before"] = before
        if after is not None and after != "":
            fields["after"] = after
        return fields

    def _line(self, at_ms: int, who: Actor, what: str, key: str, before: object, after: object) -> str:
        old, new = _differing(before, after)
        fields = self._fields(at_ms, who, what, key, old, new)
        line = _plain_line(fields)
        if line is not None and not _may_have_secret(old) and not _may_have_secret(new):
            return line
        return json_line({**fields, **{side: _shown(fields[side]) for side in ("before", "after") if side in fields}})

    def _noted_line(self, at_ms: int, who: Actor, what: str, key: str, before: object, after: object) -> str:
        line = self._line(at_ms, who, what, key, before, after)
        self.memory.note(what, at_ms, line)
        return line

    def _instance_line(
        self, at_ms: int, who: Actor, verb: str, service: tuple[str, str], key: str, before: object, after: object
    ) -> str:
        return self._noted_line(at_ms, who, f"instance.{verb}", f"{service[0]}/{service[1]}/{key}", before, after)

    def _line_of_repeated(self, at_ms: int, event: Event, told: dict[str, Any]) -> str:
        make = self._noted_line if kind_of(event.what) == ACCESS else self._line  # the others are noted one by one
        return make(at_ms, Actor(event.address, event.user), event.what, "", None, told)

    def _line_of_lost(self, count: int) -> str:
        return json_line({"time": time_text(self._wall_ms()), "node": self._node, "what": "lost", "lines": count})


def time_text(wall_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    second, ms = divmod(wall_ms, 1_000)
    return f"{_second_text(second)}.{ms:03}Z"


@lru_cache(64)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def _plain_line(fields: Mapping[str, Any]) -> str | None:
    """Return the line of nearly all changes, which is short and printable; None if it is not, or is no JSON."""
    try:
        line = orjson.dumps(fields).decode()
    except TypeError:
        return None
    # Of the unprintable ASCII characters orjson escapes all but DEL.
    is_printable = DELETE not in line if line.isascii() else line.isprintable()
    return line if is_printable and len(line) <= PLAIN_CHARS_MAX else None


def json_line(fields: Mapping[str, Any]) -> str:
    """Return one line of JSON for any values of callers.

    Lone surrogates, which have no UTF-8, become question marks.
    """
    try:
        line = orjson.dumps(fields).decode()
    except TypeError:
        line = orjson.dumps(_plain(fields)).decode()
    return line if line.isprintable() else json.dumps(orjson.loads(line))  # this escapes all non-ASCII characters


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


_READERS_MAX = 256
Read = Callable[[Any], tuple[object, ...]]
"""Returns the values of ``_SHOWN`` in that order, None for those that an object lacks."""


def _fields_of(value: object) -> object:
    """Return an instance, or a command about one, by the fields that the two have in common.

    Any other value unchanged.
    """
    # mypy takes type[object].__hash__ for the unbound method of object, and so finds no Hashable.
    read = _reader_of(type(value))  # type: ignore[arg-type]
    if read is None:
        return value
    return {name: one for name, one in zip(_SHOWN, read(value), strict=True) if one is not None}


@lru_cache(_READERS_MAX)
def _reader_of(kind: type) -> Read | None:
    """Return a reader for the fields of a class; None for a class without fields."""
    if is_dataclass(kind):
        known = [one.name for one in dataclass_fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        known = list(kind._fields)
    else:
        return None
    found = {_INSTANCE_FIELDS[name]: name for name in known if name in _INSTANCE_FIELDS}
    if len(found) == len(_SHOWN):
        return attrgetter(*[found[name] for name in _SHOWN])
    names = [found.get(name) for name in _SHOWN]
    return lambda value: tuple([name and getattr(value, name) for name in names])


def _differing(before: object, after: object) -> tuple[object, object]:
    """Return the fields that differ between two objects.

    Lists show their instances by fields, or by addresses if they are long; other values are unchanged.
    """
    # mypy takes type[object].__hash__ for the unbound method of object, and so finds no Hashable.
    read_old, read_new = _reader_of(type(before)), _reader_of(type(after))  # type: ignore[arg-type]
    if read_old is not None and read_new is not None:
        old, new = {}, {}
        for name, was, now in zip(_SHOWN, read_old(before), read_new(after), strict=True):
            if was is now or was == now:  # nearly all are the same objects
                continue
            if was is not None:
                old[name] = was
            if now is not None:
                new[name] = now
        return old, new
    before, after = _fields_of(before), _fields_of(after)
    if before is None or after is None or not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return _with_fields(before), _with_fields(after)
    absent = object()
    names = [name for name in {**before, **after} if before.get(name, absent) != after.get(name, absent)]
    return _only(before, names), _only(after, names)


def _only(fields: Mapping[str, object], names: list[str]) -> dict[str, object]:
    return {name: fields[name] for name in names if name in fields}


def _with_fields(value: object) -> object:
    if type(value) is not list:
        return value
    if len(value) > FIELDS_MAX:
        return [host_port(one.ip, one.port) if hasattr(one, "port") else _fields_of(one) for one in value]
    return [_fields_of(one) for one in value]


def _shown(value: object) -> object:
    """Return a value as it may appear in the trail: without secrets, and within the bound."""
    text = json_line({"value": value})
    if len(text) > VALUE_BYTES_MAX:
        return f"{len(text)} bytes, left out"
    lowered = text.lower()
    if "\\u" in text or any(word in lowered for word in SECRET_WORDS):  # perhaps as, or in, the name of a field
        return hide_secrets(value)
    return value


@lru_cache(1_024)
def _has_secret_name(names: tuple[object, ...]) -> bool:
    """Return whether one of these names, from a line of ``_plain_line``, is the name of a secret, or no text.

    Results are cached, because the instances of one program have the same names.
    """
    return any(type(name) is not str or word in name.lower() for name in names for word in SECRET_WORDS)


def _may_have_secret(value: object) -> bool:
    """Return whether a value has a field with the name of a secret, or is nested too deeply to tell."""
    if type(value) is list:
        return any(map(_may_have_secret, value))
    if type(value) is not dict:
        return value is not None and not isinstance(value, str | int | float)
    nested = [one for one in value.values() if type(one) not in _SCALARS]
    return _has_secret_name(tuple(value)) or any(map(_may_have_secret, nested))


def hide_secrets(value: object) -> object:
    """Return a copy of a value in which fields with the names of secrets are hidden, at any depth."""
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
    """Return the kind of a durable record, and its displayed key."""
    match parse_record_key(key):
        case ServiceMetaKey(namespace, name):
            return "service", f"{namespace}/{name}"
        case PersistentKey(namespace, name, instance):
            return "instance", f"{namespace}/{name}/{instance}"
        case OverrideKey(namespace, name, instance):
            return "override", f"{namespace}/{name}/{instance}"
        case NamespaceKey(namespace):
            return "namespace", namespace
        case SwitchesKey():
            return "switches", "switches"
        case _:
            kind, _, name = key.removeprefix("rollcall.").partition(".")
            return (kind, name) if name else ("record", key)
