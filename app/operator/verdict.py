"""The verdict on one instance from the knowledge of all members, in plain sentences, and their differences. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.operator.instance_places import InstancePlace

Facts = Mapping[str, Any]
Told = Mapping[str, Facts]
"""The answers of the members, by address."""
BEAT_NEAR_MS = 2_000
"""Beats at two members that are no further apart are one beat, which was forwarded."""


def compare(told: Told, silent: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the verdict, and the differences, as sentences. ``silent``: the members that did not answer."""
    absent = sorted(silent)
    verdict = [*_owners(told), *_listed(told), *_published(told), *_persistent(told), *_foreign(told)]
    if not any(_has_any(one) for one in told.values()):
        verdict.extend(_gone(told))
    verdict.extend(_override(told))
    verdict.extend(_shown(told))
    verdict.extend(_subscribers(told))
    if absent:
        verdict.append(f"No answer from {', '.join(absent)}: this report leaves out what is known there.")
    return verdict, _differences(told)


def elsewhere_words(places: Iterable[InstancePlace]) -> list[str]:
    """Return the sentence that names further places of the same address, if there are any."""
    named = [f"{one.service} (cluster {one.cluster})" for one in places]
    return [f"The same address is also registered in {', '.join(named)}."] if named else []


def _has_any(one: Facts) -> bool:
    held = one["listed"] or one["published"] or one["persistent"] or one["heldBack"]
    return bool(held or one.get("foreign"))  # a member of an earlier release has no links


def _by(told: Told, name: str) -> dict[str, Any]:
    return {address: one[name] for address, one in told.items() if one[name]}


def _owners(told: Told) -> list[str]:
    owners = {one["responsible"]["member"] for one in told.values()}
    if len(owners) != 1:
        return []
    [owner] = owners
    why = next(iter(told.values()))["responsible"]
    if why["hash"] is None:
        return [f"{owner} is responsible for the service: it is the only member."]
    count = len(why["candidates"])
    is_there = "" if owner in told else ", which did not answer"
    how = f"hash {why['hash']} modulo {count} members is {why['index']}"
    return [f"{owner}{is_there} is responsible for the service: {how}."]


def _listed(told: Told) -> list[str]:
    listed = _by(told, "listed")
    if not listed:
        return []
    source = _best(told, listed)
    one = listed[source]
    said = [
        f"An ephemeral instance kept by beats, held by {_names(listed)}; it is "
        f"{'healthy' if one['healthy'] else 'UNHEALTHY'} at {source}."
    ]
    if one["unhealthyBecause"]:
        said.append(f"Unhealthy because: {one['unhealthyBecause']}.")
    age_ms = min(each["beatAgeMs"] for each in listed.values())
    if source in listed and listed[source]["beatAgeMs"] > age_ms + BEAT_NEAR_MS:
        at = min(listed, key=lambda address: listed[address]["beatAgeMs"])
        said.append(
            f"Its last beat is {_span(age_ms)} old at {at}, and {_span(listed[source]['beatAgeMs'])} old at {source}: "
            "beats arrive there, and are not forwarded."
        )
    elif len(listed) > 1:
        # Among the others only the member that gets the beats has a recent one: a copy keeps the beat it arrived with.
        others = sorted(listed.keys() - {source})
        near = [each for each in others if listed[each]["beatAgeMs"] <= age_ms + BEAT_NEAR_MS]
        way = ", received through " + near[0] if len(near) == 1 and len(others) > 1 else ""
        said.append(f"Its last beat at {source} is {_span(one['beatAgeMs'])} old{way}.")
    else:
        said.append(f"Its last beat is {_span(one['beatAgeMs'])} old.")
    if not one["checkedHere"] and source in told:
        said.append(
            f"{source} does not check its beats now: another member writes the list, or this member's view is not "
            "steady yet."
        )
    for address, held in _by(told, "heldBack").items():
        said.append(f"{address} still shows it, for {_span(held['leftMs'])}: it vanished without being deregistered.")
    return said


def _best(told: Told, listed: Mapping[str, Any]) -> str:
    """Return the member whose facts decide: the responsible one, if it answered and has it, else the last writer's."""
    owners = [one["responsible"]["member"] for one in told.values()]
    for address in (*owners, *(one["writer"] for one in listed.values())):
        if address in listed:
            return str(address)
    return min(listed)


def _published(told: Told) -> list[str]:
    clients: dict[str, dict[str, Any]] = {}
    for one in told.values():
        for each in one["published"]:
            known = clients.setdefault(each["client"], dict(each))
            if each["connectedHere"]:
                known.update(each)
    said = []
    for name, each in clients.items():
        where = each["member"] or "an unknown member"
        if each["connectedHere"]:
            said.append(
                f"Published by the gRPC client {name}, connected to {where}: it stays registered as long as that "
                "connection."
            )
            if each.get("healthy") is False:
                said.append("Unhealthy because: its client published it as unhealthy. No beats or checks change that.")
        elif each["connectionGone"]:
            said.append(f"Its client {name} lost the connection, and is expected to publish at another member.")
        elif where in told:
            said.append(
                f"Copied from the gRPC client {name} of {where}, where it is no longer connected: the copies will be "
                "removed."
            )
        else:
            said.append(f"Copied from the gRPC client {name} of {where}, which did not answer.")
    return said


def _persistent(told: Told) -> list[str]:
    held = _by(told, "persistent")
    if not held:
        return []
    owners = sorted({str(one["responsible"]["member"]) for one in held.values()})
    owner = owners[0] if owners[0] in held else min(held)
    one = held[owner]
    health = "healthy" if one["healthy"] else "UNHEALTHY"
    said = [f"A persistent instance, held by {_names(held)}; {', '.join(owners)} checks it, and it is {health}."]
    if one["unhealthyBecause"]:
        said.append(f"Unhealthy because: {one['unhealthyBecause']}.")
    return said


def _foreign(told: Told) -> list[str]:
    """Return the links that brought the instance from other clusters."""
    said = []
    links = {each["link"]: each for one in told.values() for each in one.get("foreign", ())}
    for name, one in sorted(links.items()):
        links_at = {address: {each["link"] for each in facts.get("foreign", ())} for address, facts in told.items()}
        at = _names(address for address, names in links_at.items() if name in names)
        health = "healthy" if one["healthy"] else "UNHEALTHY"
        said.append(
            f"Registered in the cluster {one['origin']}, and brought by the link {name} to {at}; it is {health} there, "
            f"as {one['statedBy']} says."
        )
        if one["stale"]:
            said.append(f"The link {name} has not answered for {_span(one['silentMs'])}: this is its last known state.")
        elif one["kept"]:
            said.append(f"The cluster {one['origin']} does not have it at the moment, and did not report a removal.")
    return said


def _override(told: Told) -> list[str]:
    """Return what an operator changed, and until when that holds."""
    held = {address: one["override"] for address, one in told.items() if one.get("override")}
    if not held:
        return []
    newest = max(held.values(), key=lambda one: (one["atMs"], one["version"]))
    changed = [f"{name} {newest[name]:g}" for name in ("weight",) if newest[name] is not None]
    if newest["enabled"] is not None:
        changed.append("enabled" if newest["enabled"] else "disabled")
    if newest["metadata"]:
        changed.append(f"metadata {', '.join(sorted(newest['metadata']))}")
    is_held = any(_has_any(one) for one in told.values())
    effect = (
        "clients see these values in place of the registered ones, until the instance has been gone for a minute"
        if is_held
        else "the change is dropped unless the instance comes back soon"
    )
    return [f"An operator changed it ({', '.join(changed)}), at {newest['by'] or 'a member'}: {effect}."]


def _gone(told: Told) -> list[str]:
    """Return the reasons why no member has it."""
    said = []
    for address, one in sorted(told.items()):
        for each in one["history"][-1:]:
            said.append(f"{_span(each['ageMs'])} ago at {address}: {each['what']}.")
    removed = _by(told, "removed")
    if removed:
        newest = min(removed.values(), key=lambda one: one["ageMs"])
        # A tombstone of an expiry counts from the last beat, one of a deregistration from the call.
        said.append(
            f"No member has it. {newest['by'] or 'A member'} removed it (version {newest['version']}); it was last "
            f"known to be alive {_span(newest['ageMs'])} ago. The removal is recorded at {_names(removed)}."
        )
    persistent = _by(told, "persistentRemoved")
    if persistent:
        newest = max(persistent.values(), key=lambda one: one["atMs"])
        said.append(f"A persistent instance of this address was removed, by a call taken at {newest['by']}.")
    if not said:
        known = any(one["serviceKnown"] for one in told.values())
        unknown = "instance, only its service" if known else "instance or its service"
        said.append(f"No member knows this {unknown}: it was never registered, or its removal has been forgotten.")
    return said


def _shown(told: Told) -> list[str]:
    shown = _by(told, "shown")
    said = []
    hidden = [address for address, one in shown.items() if not one["inLists"]]
    if hidden:
        said.append(f"It is disabled at {_names(hidden)}: clients do not see it.")
    rewritten = [address for address, one in shown.items() if one["rewritten"]]
    if rewritten:
        one = shown[rewritten[0]]
        if one["healthyInService"]:
            why = (
                f"{one['healthyInService']} of {one['instancesInService']} are healthy, and the protect threshold is "
                f"{one['protectThreshold']:g}"
            )
        else:
            why = "no instance of the service is healthy, and lists then show all of them as healthy"
        said.append(f"Clients still see it as healthy: {why}.")
    return said


def _subscribers(told: Told) -> list[str]:
    said = []
    for address, one in sorted(told.items()):
        behind = sum(way["behind"] for way in one["subscribers"].values())
        if behind:
            count = sum(way["count"] for way in one["subscribers"].values())
            said.append(
                f"{behind} of {count} subscribers at {address} have not acknowledged the service's last change."
            )
        for each in one["pending"]:
            said.append(f"{address} to {each['peer']}: {each['what']} {each['is']}.")
    return said


def _differences(told: Told) -> list[str]:
    """Return the differences between the members that answered."""
    found = []
    owners = {address: str(one["responsible"]["member"]) for address, one in told.items()}
    found.extend(_unlike("who is responsible", owners))
    for kind, label in (("listed", "instance list"), ("persistent", "record"), ("override", "operator's change")):
        held = {address: one[kind] for address, one in told.items() if one.get(kind)}
        if held and len(held) < len(told):
            found.append(f"the {label}: not at {_names(sorted(told.keys() - held.keys()))}, held by {_names(held)}")
        for name in ("version", "healthy", "enabled", "weight", "metadata"):
            found.extend(
                _unlike(f"{label}: {name}", {address: _value_text(one.get(name)) for address, one in held.items()})
            )
    clients = {address: frozenset(each["client"] for each in one["published"]) for address, one in told.items()}
    if len(set(clients.values())) > 1:
        found.append(
            "publications: "
            + "; ".join(f"{address} {len(names)} client(s)" for address, names in sorted(clients.items()))
        )
    removed, listed = _by(told, "removed"), _by(told, "listed")
    if removed and listed:
        found.append(f"removed at {_names(removed)}, but present at {_names(listed)}")
    return found


def _value_text(value: object) -> str:
    """Return a value as JSON has it; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _unlike(what: str, values: Mapping[str, str]) -> list[str]:
    if len(set(values.values())) < 2:
        return []
    return [f"{what}: " + "; ".join(f"{address} {value}" for address, value in sorted(values.items()))]


def _names(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))


def _span(ms: int) -> str:
    """Return a duration in words: ``850 ms``, ``12.3 s``, ``7 min``."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    return f"{ms // 60_000} min"
