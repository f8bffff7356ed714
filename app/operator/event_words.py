"""The place that an event is about, and the event as a sentence, from the fields of its line in the audit trail."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, INT_MAX

NAMED_MAX = 3
"""The most instances, or other names, that a sentence has."""
VALUE_CHARS_MAX = 60
_UNKNOWN = ":unknown:"


class Address(NamedTuple):
    """The address of an instance, and its cluster within the service."""

    ip: str
    port: int
    cluster: str

    @property
    def text(self) -> str:
        """The host and port."""
        return host_port(self.ip, self.port)


class EventPlace(NamedTuple):
    """The namespace, the full name of the service, and the instances that an event is about; empty for none."""

    namespace: str = ""
    service: str = ""
    instances: tuple[Address, ...] = ()


def place_of(what: str, key: str, before: object, after: object) -> EventPlace:
    """Return what an event is about. ``key``, ``before``, ``after``: those of its line."""
    match what.partition(".")[0]:
        case "instance" | "override":
            namespace, _, rest = key.partition("/")
            service, _, name = rest.rpartition("/")
            by_key = _by_key(name)
            # The lines of clients over gRPC have the connection in their key, and the instances as values.
            found = (by_key,) if by_key else tuple(_by_values(after)) or tuple(_by_values(before))
            return EventPlace(namespace, service, found)
        case "service":
            namespace, _, service = key.partition("/")
            return EventPlace(namespace, service)
        case "namespace":
            return EventPlace(key)
        case "operation" if isinstance(after, Mapping):
            return _of_parameters(after)
        case _:
            return EventPlace()


def _by_key(key: str) -> Address | None:
    """Return the address in an instance's key; None for another text."""
    head, splitter, cluster = key.partition(_UNKNOWN)
    if not splitter:
        return None
    ip, _, port = head.rpartition(":")
    return Address(ip, int(port), cluster) if ip and _is_number(port) else Address(head, 0, cluster)


def _by_values(value: object) -> Iterator[Address]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, Mapping) and isinstance(one.get("ip"), str) and isinstance(one.get("port"), int):
            yield Address(one["ip"], one["port"], str(one.get("cluster") or DEFAULT_CLUSTER))
        elif isinstance(one, str) and isinstance(value, list):  # a long list has addresses alone
            ip, _, port = one.rpartition(":")
            if ip and _is_number(port):
                yield Address(ip.strip("[]"), int(port), DEFAULT_CLUSTER)


def _of_parameters(given: Mapping[str, Any]) -> EventPlace:
    """Return what an operator's call was about, by its parameters."""
    texts = {name: value for name, value in given.items() if isinstance(value, str)}
    service, group = texts.get("serviceName", ""), texts.get("groupName", "")
    if service and "@@" not in service:
        service = f"{group or 'DEFAULT_GROUP'}@@{service}"
    namespace = texts.get("namespaceId", "") or (DEFAULT_NAMESPACE if service else "")
    ip, port = texts.get("ip", ""), texts.get("port", "")
    at = (Address(ip, int(port), texts.get("clusterName") or DEFAULT_CLUSTER),) if ip and _is_number(port) else ()
    return EventPlace(namespace, service, at)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < len(str(INT_MAX))


# --- sentences ---------------------------------------------------------------------------------------

_OF_INSTANCES = {
    "register": "registered",
    "update": "changed",
    "create": "registered",
    "remove": "deregistered",
    "beat": "registered by a beat",
    "expire": "removed, because no beat arrived",
    "unhealthy": "became unhealthy, because no beat arrived",
    "ill": "set unhealthy by a call",
    "healthy": "became healthy",
    "leave": "removed, because the connection of its client ended",
}
_VERBS = {"create": "created", "update": "changed", "remove": "removed"}
_ACCESSES = {
    "login.done": "logged in",
    "login.refused": "could not log in: unknown user or wrong password",
    "logout": "logged out",
}


def sentence(what: str, key: str, place: EventPlace, before: object, after: object, *, by_node: bool = True) -> str:
    """Return an event in words, without the name of its service and of its author.

    ``by_node``: the member did it by itself.
    """
    kind, _, verb = what.partition(".")
    match kind:
        case "instance":
            if verb == "unhealthy" and not by_node:
                verb = "ill"
            return _instances(verb, place.instances, before, after)
        case "override":
            return f"{_names(place.instances)} {_of_override(verb, before, after)}"
        case "service":
            return f"service {_VERBS.get(verb, verb)}{_changes(before, after) if verb == 'update' else ''}"
        case "client":
            return f"client {key} is gone: its connection ended"
        case "member":
            return _member(verb, key, before, after)
        case "node":
            return f"{key} {f'started, release {after}' if verb == 'start' else 'stopped'}"
        case "ownership":
            return f"took over {key}"
        case "operation":
            return f"called {key}"
        case "lost":
            return "events were lost: too many came at once, or the disk did not accept them"
        case "login" | "logout" | "access":
            return _access(what, key, after)
        case _:
            return f"{kind} {key} {_VERBS.get(verb, verb)}{_changes(before, after) if verb == 'update' else ''}"


def _instances(verb: str, instances: tuple[Address, ...], before: object, after: object) -> str:
    """Return what became of instances. A change of health alone is told as that."""
    said = _OF_INSTANCES.get(verb, verb)
    if verb == "update" and isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(after) == ["healthy"] and isinstance(after["healthy"], bool):
            said = "became healthy" if after["healthy"] else "became unhealthy"
        else:
            said += _changes(before, after)
    return f"{_names(instances)} {said}"


def _names(instances: tuple[Address, ...]) -> str:
    if not instances:
        return "instances"
    names = ", ".join(one.text for one in instances[:NAMED_MAX])
    return names if len(instances) <= NAMED_MAX else f"{names} and {len(instances) - NAMED_MAX} more"


def _of_override(verb: str, before: object, after: object) -> str:
    """Return an operator's change of an instance in words."""
    old = before if isinstance(before, Mapping) else {}
    new = after if isinstance(after, Mapping) else {}
    if verb == "remove":
        return "has the values of its client again"
    if isinstance(new.get("enabled"), bool) and old.get("enabled") is not new["enabled"]:
        rest = {name: value for name, value in new.items() if name != "enabled" and value is not None}
        return f"{'put back into' if new['enabled'] else 'taken out of'} service{_changes(old, rest) if rest else ''}"
    return f"changed by an operator{_changes(old, new)}"


def _changes(before: object, after: object) -> str:
    """Return the changed fields, ``: weight 1 to 2``; the empty text without any."""
    if not isinstance(after, Mapping):
        return ""
    old = before if isinstance(before, Mapping) else {}
    told = []
    for name, value in list(after.items())[:NAMED_MAX]:
        if value is not None and old.get(name) != value:
            was = f"{_short(old[name])} to " if old.get(name) is not None else ""
            told.append(f"{name} {was}{_short(value)}")
    return f": {', '.join(told)}" if told else ""


def _short(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        text = " ".join(f"{name}={one}" for name, one in list(value.items())[:NAMED_MAX]) or "none"
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _member(verb: str, address: str, before: object, after: object) -> str:
    match verb:
        case "add":
            return f"{address} joined the member list"
        case "remove":
            return f"{address} left the member list"
        case "state":
            return f"sees {address} {after}, before {before}"
        case "refused":
            return f"refused a member's call {address}{_why(after)}"
        case _:
            return f"{address} {verb}"


def _access(what: str, key: str, after: object) -> str:
    if isinstance(after, Mapping) and isinstance(count := after.get("repeated"), int):
        return f"{count} more of the kind {what}"
    return _ACCESSES.get(what) or f"was refused {key}{_why(after)}"


def _why(after: object) -> str:
    return f": {after}" if isinstance(after, str) and after else ""
