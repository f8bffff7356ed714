"""The audit trail: who changed what, from where, with the values before and after, as lines of JSON in a file."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from app.config.observability import Observability
from app.metrics.audit_lines import differing, json_line, may_have_secret, plain_line, shown, time_text
from app.metrics.event_memory import ACCESS, EventMemory, kind_of
from app.metrics.line_file import LineFile
from app.metrics.security_log import SECURITY_NAME, Event, SecurityLog
from app.naming.records.record_keys import (
    NamespaceKey,
    OverrideKey,
    PersistentKey,
    ServiceMetaKey,
    SwitchesKey,
    parse_record_key,
)

OF_CLIENTS = ("instance.", "client.", "service.", "ownership.")
"""Events that clients or the node itself cause, at any rate. Only the audit log has them."""
KEY_CHARS_MAX = 512
"""The longest name of a call in a line, because the caller chooses it."""


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


class _SharedLine:
    """A line of both logs. The thread of the log that writes it first makes and notes it."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make: Callable[[], str] | None = make
        self._line = ""
        self._lock = Lock()

    def __call__(self) -> str:
        with self._lock:
            if self._make is not None:
                self._line, self._make = self._make(), None
            return self._line


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
            make: Callable[[], str] = partial(self._noted_line, self._wall_ms(), who, what, key, before, after)
            if not what.startswith(OF_CLIENTS) and self._security.takes(Event(what, who.address, who.user)):
                make = _SharedLine(make)
                self._security.add(make)
            self._file.add(make)

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
        old, new = differing(before, after)
        fields = self._fields(at_ms, who, what, key, old, new)
        line = plain_line(fields)
        if line is not None and not may_have_secret(old) and not may_have_secret(new):
            return line
        return json_line({**fields, **{side: shown(fields[side]) for side in ("before", "after") if side in fields}})

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
