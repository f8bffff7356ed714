"""The place that an event is about, and the event as a sentence, from the fields of its line in the audit trail."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.languages.catalogues import ENGLISH_TEXTS, N_, Texts
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_NAMESPACE, INT_MAX

NAMED_MAX = 3
"""The most instances, or other names, that a sentence has."""
VALUE_CHARS_MAX = 60
FIELDS = frozenset((N_("enabled"), N_("ephemeral"), N_("health"), N_("healthy"), N_("metadata"), N_("weight")))
"""The attributes of instances that have a word in other languages."""
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
    "register": N_("%(names)s registered"),
    "update": N_("%(names)s changed%(changes)s"),
    "create": N_("%(names)s registered"),
    "remove": N_("%(names)s deregistered"),
    "beat": N_("%(names)s registered by a beat"),
    "expire": N_("%(names)s removed, because no beat arrived"),
    "unhealthy": N_("%(names)s became unhealthy, because no beat arrived"),
    "ill": N_("%(names)s set unhealthy by a call"),
    "healthy": N_("%(names)s became healthy"),
    "sick": N_("%(names)s became unhealthy"),
    "leave": N_("%(names)s removed, because the connection of its client ended"),
}
_OF_SERVICES = {
    "create": N_("service created"),
    "update": N_("service changed%(changes)s"),
    "remove": N_("service removed"),
}
_OF_MEMBERS = {
    "add": N_("%(member)s joined the member list"),
    "remove": N_("%(member)s left the member list"),
    "state": N_("sees %(member)s %(after)s, before %(before)s"),
    "refused": N_("refused the call %(member)s of a member%(why)s"),
}
_OF_OTHERS = {
    "create": N_("%(kind)s %(key)s created"),
    "update": N_("%(kind)s %(key)s changed%(changes)s"),
    "remove": N_("%(kind)s %(key)s removed"),
}
_KINDS = {
    "namespace": N_("namespace"),
    "switches": N_("switches"),
    "link": N_("link"),
    "user": N_("user"),
    "role": N_("role"),
}
_ACCESSES = {
    "login.done": N_("logged in"),
    "login.refused": N_("could not log in: unknown user or wrong password"),
    "logout": N_("logged out"),
}


def sentence(
    what: str,
    key: str,
    place: EventPlace,
    before: object,
    after: object,
    *,
    by_node: bool = True,
    texts: Texts = ENGLISH_TEXTS,
) -> str:
    """Return an event in words, without the name of its service and of its author.

    ``by_node``: the member did it by itself.
    """
    kind, _, verb = what.partition(".")
    gettext = texts.gettext
    changes = _changes(before, after, texts) if verb == "update" else ""
    match kind:
        case "instance":
            return _instances(texts, "ill" if verb == "unhealthy" and not by_node else verb, place, before, after)
        case "override":
            return _of_override(texts, verb, _names(place.instances, texts), before, after)
        case "service" if verb in _OF_SERVICES:
            return gettext(_OF_SERVICES[verb], changes=changes)
        case "client":
            return gettext("client %(client)s is gone: its connection ended", client=key)
        case "member" if verb in _OF_MEMBERS:
            return gettext(_OF_MEMBERS[verb], member=key, before=before, after=after, why=_why(after))
        case "node" if verb == "start":
            return gettext("%(member)s started, release %(release)s", member=key, release=after)
        case "node":
            return gettext("%(member)s stopped", member=key)
        case "ownership":
            return gettext("took over %(keys)s", keys=key)
        case "operation":
            return gettext("called %(call)s", call=key)
        case "lost":
            return gettext("events were lost: too many came at once, or the disk did not accept them")
        case "login" | "logout" | "access":
            return _access(texts, what, key, after)
        case _ if verb in _OF_OTHERS:
            return gettext(_OF_OTHERS[verb], kind=gettext(_KINDS.get(kind, kind)), key=key, changes=changes)
        case _:
            return f"{kind} {key} {verb}"


def _instances(texts: Texts, verb: str, place: EventPlace, before: object, after: object) -> str:
    """Return what became of instances. A change of health alone has its own text."""
    names, changes = _names(place.instances, texts), ""
    if verb == "update" and isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(after) == ["healthy"] and isinstance(after["healthy"], bool):
            verb = "healthy" if after["healthy"] else "sick"
        else:
            changes = _changes(before, after, texts)
    if verb not in _OF_INSTANCES:
        return f"{names} {verb}"
    return texts.gettext(_OF_INSTANCES[verb], names=names, changes=changes)


def _names(instances: tuple[Address, ...], texts: Texts) -> str:
    if not instances:
        return texts.gettext("instances")
    names = ", ".join(one.text for one in instances[:NAMED_MAX])
    if len(instances) <= NAMED_MAX:
        return names
    return texts.gettext("%(names)s and %(count)s more", names=names, count=len(instances) - NAMED_MAX)


def _of_override(texts: Texts, verb: str, names: str, before: object, after: object) -> str:
    """Return an operator's change of an instance in words."""
    old = before if isinstance(before, Mapping) else {}
    new = after if isinstance(after, Mapping) else {}
    if verb == "remove":
        return texts.gettext("%(names)s has the values of its client again", names=names)
    if isinstance(new.get("enabled"), bool) and old.get("enabled") is not new["enabled"]:
        rest = {name: value for name, value in new.items() if name != "enabled" and value is not None}
        changes = _changes(old, rest, texts) if rest else ""
        if new["enabled"]:
            return texts.gettext("%(names)s put back into service%(changes)s", names=names, changes=changes)
        return texts.gettext("%(names)s taken out of service%(changes)s", names=names, changes=changes)
    changes = _changes(old, new, texts)
    return texts.gettext("%(names)s changed by an operator%(changes)s", names=names, changes=changes)


def _changes(before: object, after: object, texts: Texts) -> str:
    """Return the changed fields, ``: weight 1 to 2``; the empty text without any."""
    if not isinstance(after, Mapping):
        return ""
    old = before if isinstance(before, Mapping) else {}
    told = []
    for name, value in list(after.items())[:NAMED_MAX]:
        if value is not None and old.get(name) != value:
            field, now = texts.gettext(name) if name in FIELDS else name, _short(value, texts)
            if old.get(name) is None:
                told.append(f"{field} {now}")
            else:
                was = _short(old[name], texts)
                told.append(texts.gettext("%(field)s %(before)s to %(after)s", field=field, before=was, after=now))
    return f"{texts.gettext(': ')}{', '.join(told)}" if told else ""


def _short(value: object, texts: Texts) -> str:
    if isinstance(value, bool):
        return texts.gettext("yes") if value else texts.gettext("no")
    if isinstance(value, Mapping):
        text = " ".join(f"{name}={one}" for name, one in list(value.items())[:NAMED_MAX]) or texts.gettext("none")
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"


def _access(texts: Texts, what: str, key: str, after: object) -> str:
    if isinstance(after, Mapping) and isinstance(count := after.get("repeated"), int):
        return texts.gettext("%(count)s more of the kind %(kind)s", count=count, kind=what)
    if what in _ACCESSES:
        return texts.gettext(_ACCESSES[what])
    return texts.gettext("was refused %(call)s%(why)s", call=key, why=_why(after))


def _why(after: object) -> str:
    return f": {after}" if isinstance(after, str) and after else ""
