"""Events of the last hours: what one member remembers, by filters, and all members' answers merged."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.metrics.audit_trail import AuditTrail
from app.metrics.event_memory import KINDS, NotedLine, kind_of
from app.operator.event_words import place_of, sentence

LINES_BYTES_MAX = 1 << 20
"""The most bytes of lines in one member's answer. An answer with fewer events than were asked for says ``more``."""
NEVER_MS = 1 << 60
CURSOR_SPLITTER = "|"
Event = dict[str, Any]
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The events that are asked for. Empty texts and 0 set no condition."""

    namespace: str = ""
    service: str = ""
    """The full name."""
    ip: str = ""
    port: int = 0
    kinds: tuple[str, ...] = KINDS
    text: str = ""
    after_ms: int = -1
    before_ms: int = NEVER_MS
    cursor: str = ""
    """The ``next`` of an answer: events that come after it in the order."""
    limit: int = 100

    def passes(self, line: str) -> bool:
        """Return False if a line cannot be of an event that is asked for: cheaper than to read it."""
        for wanted in (self.service, self.ip):
            if wanted and wanted.isascii() and wanted not in line:
                return False
        return not self.text or self.text.lower() in line.lower()

    def takes(self, event: Event) -> bool:
        """Return whether an event is asked for, by the place that it is about."""
        if self.namespace and event["namespaceId"] != self.namespace:
            return False
        if self.service and event["serviceName"] != self.service:
            return False
        if not self.ip and not self.port:
            return True
        return any(
            (not self.ip or ip == self.ip) and (not self.port or port == self.port)
            for ip, port, _ in event["instances"]
        )


def order_of(event: Event) -> tuple[int, str, int]:
    """Return the sort key of events."""
    return event["atMs"], event["node"], event["number"]


def cursor_of(event: Event) -> str:
    """Return the text that names an event's place in the order."""
    return CURSOR_SPLITTER.join(map(str, order_of(event)))


def read_cursor(text: str) -> tuple[int, str, int]:
    """Return the place in the order that ``cursor_of`` named.

    Raises:
        ValueError: it is not such a text.
    """
    at, node, number = text.split(CURSOR_SPLITTER)
    if not (at.isdecimal() and number.isdecimal() and len(at) < 19 and len(number) < 19):
        raise ValueError("it should be the 'next' of an answer")
    return int(at), node, int(number)


def local_events(audit: AuditTrail, query: EventQuery) -> dict[str, Any]:
    """Return what this member remembers, the latest first. Shape: events, more, memory."""
    memory, found, size, more = audit.memory, list[Event](), 0, False
    ends = read_cursor(query.cursor) if query.cursor else None
    before_ms = min(query.before_ms, ends[0] + 1) if ends else query.before_ms
    for one in reversed(memory.between(query.kinds, query.after_ms, before_ms)):
        if not query.passes(one.line):
            continue
        event = event_of(memory.node, memory.run, one)
        if (ends is not None and order_of(event) >= ends) or not query.takes(event):
            continue
        if len(found) >= query.limit or (found and size > LINES_BYTES_MAX):
            more = True
            break
        found.append(event)
        size += len(one.line)
    told = {
        "audit": audit.is_on,
        "auditInstances": audit.covers_instances,
        "lost": audit.unmade,
        "rev": memory.revision,
        "sinceMs": memory.since_ms(),
    }
    return {"events": found, "more": more, "memory": told}


def event_of(node: str, run: str, one: NotedLine) -> Event:
    """Return the event of a remembered line. Shape: docs/operations/inspect.md."""
    fields = orjson.loads(one.line)
    what, key = fields["what"], fields.get("key", "")
    before, after = fields.get("before"), fields.get("after")
    place = place_of(what, key, before, after)
    only = place.instances[0] if len(place.instances) == 1 else None
    return {
        "id": f"{node}~{run}~{one.number}",
        "number": one.number,
        "atMs": one.at_ms,
        "time": fields["time"],
        "node": node,
        "kind": kind_of(what),
        "what": what,
        "says": sentence(what, key, place, before, after, by_node=fields.get("user") == "node"),
        "namespaceId": place.namespace,
        "serviceName": place.service,
        "ip": only.ip if only else "",
        "port": only.port if only else 0,
        "clusterName": only.cluster if only else "",
        "instances": [list(one) for one in place.instances],
        "key": key,
        **{name: fields.get(name, "") for name in ("user", "from", "via", "agent")},
        "before": before,
        "after": after,
    }


# --- all members --------------------------------------------------------------------------------------

_TEXTS = frozenset(("id", "time", "node", "kind", "what", "says", "namespaceId", "serviceName", "ip")) | {
    "clusterName",
    "key",
    "user",
    "from",
    "via",
    "agent",
}
_NUMBERS = frozenset(("number", "atMs", "port"))


def is_answer(told: Answer | None, limit: int) -> bool:
    """Return whether a member's answer can be merged. One of another release, or a wrong one, counts as none."""
    if told is None or not isinstance(told.get("events"), list) or not isinstance(told.get("more"), bool):
        return False
    memory = told.get("memory")
    if not isinstance(memory, dict) or not isinstance(memory.get("sinceMs"), dict) or len(told["events"]) > limit:
        return False
    return all(map(_is_event, told["events"]))


def _is_event(one: object) -> bool:
    return (
        isinstance(one, dict)
        and all(isinstance(one.get(name), str) for name in _TEXTS)
        and all(type(one.get(name)) is int for name in _NUMBERS)
    )


def merged(answers: Mapping[str, Answer], limit: int) -> tuple[list[Event], bool]:
    """Return the latest events of all answers, and whether there are more.

    A member with more than it told has events that are older than its last one: no older ones of others are merged.
    """
    ends = [order_of(one["events"][-1]) for one in answers.values() if one["more"] and one["events"]]
    complete = max(ends, default=(-1, "", 0))
    events = [one for answer in answers.values() for one in answer["events"] if order_of(one) >= complete]
    events.sort(key=order_of, reverse=True)
    more = len(events) > limit or any(one["more"] for one in answers.values())
    return events[:limit], more


COLUMNS: tuple[str, ...] = (
    *("time", "node", "kind", "what", "says", "namespaceId", "serviceName", "ip", "port", "clusterName"),
    *("user", "from", "via", "agent", "key", "before", "after", "id"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would compute: texts in it were chosen by others."""


def as_csv(events: list[Event]) -> bytes:
    """Return events as CSV with a line of names."""
    out = io.StringIO()
    lines = csv.writer(out)
    lines.writerow(COLUMNS)
    for one in events:
        lines.writerow([_cell(one[name]) for name in COLUMNS])
    return out.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> str:
    text = "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
    return f"'{text}" if text.startswith(FORMULA) else text
