"""The verdict on one instance from the knowledge of all members, in plain sentences, and their differences. Pure."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from app.languages.catalogues import ENGLISH_TEXTS, N_, Texts

Facts = Mapping[str, Any]
Told = Mapping[str, Facts]
"""The answers of the members, by address."""
BEAT_NEAR_MS = 2_000
"""Beats at two members at most so far apart are one beat, which was forwarded."""


def compare(told: Told, silent: Iterable[str], texts: Texts = ENGLISH_TEXTS) -> tuple[list[str], list[str]]:
    """Return the verdict, and the differences, as sentences. ``silent``: the members that did not answer."""
    absent = sorted(silent)
    verdict = [
        *_owners(texts, told),
        *_listed(texts, told),
        *_published(texts, told),
        *_persistent(texts, told),
        *_foreign(texts, told),
    ]
    if not any(_has_any(one) for one in told.values()):
        verdict.extend(_gone(texts, told))
    verdict.extend(_override(texts, told))
    verdict.extend(_shown(texts, told))
    verdict.extend(_subscribers(texts, told))
    if absent:
        text = N_("No answer from %(members)s: this report does not include what these members know.")
        verdict.append(texts.gettext(text, members=", ".join(absent)))
    return verdict, _differences(texts, told)


def elsewhere_words(places: Iterable[tuple[str, str]], texts: Texts = ENGLISH_TEXTS) -> list[str]:
    """Return the sentence that names further places of the same address, services and clusters, if there are any."""
    text = N_("%(service)s (cluster %(cluster)s)")
    named = [texts.gettext(text, service=service, cluster=cluster) for service, cluster in places]
    text = N_("The same address is also registered in %(places)s.")
    return [texts.gettext(text, places=", ".join(named))] if named else []


def _has_any(one: Facts) -> bool:
    held = one["listed"] or one["published"] or one["persistent"] or one["heldBack"]
    return bool(held or one.get("foreign"))  # a member of an earlier release has no links


def _by(told: Told, name: str) -> dict[str, Any]:
    return {address: one[name] for address, one in told.items() if one[name]}


def _owners(texts: Texts, told: Told) -> list[str]:
    owners = {one["responsible"]["member"] for one in told.values()}
    if len(owners) != 1:
        return []
    [owner] = owners
    why = next(iter(told.values()))["responsible"]
    if why["hash"] is None:
        return [texts.gettext("%(owner)s is responsible for the service: it is the only member.", owner=owner)]
    values = {"owner": owner, "hash": why["hash"], "count": len(why["candidates"]), "index": why["index"]}
    if owner in told:
        text = N_("%(owner)s is responsible for the service: hash %(hash)s modulo %(count)s members is %(index)s.")
    else:
        text = N_(
            "%(owner)s, which did not answer, is responsible for the service: hash %(hash)s modulo %(count)s members "
            "is %(index)s."
        )
    return [texts.gettext(text, **values)]


def _listed(texts: Texts, told: Told) -> list[str]:
    listed = _by(told, "listed")
    if not listed:
        return []
    source = _best(told, listed)
    one = listed[source]
    if one["healthy"]:
        text = N_("An ephemeral instance kept by beats, held by %(members)s; it is healthy at %(owner)s.")
    else:
        text = N_("An ephemeral instance kept by beats, held by %(members)s; it is UNHEALTHY at %(owner)s.")
    said = [texts.gettext(text, members=_names(listed), owner=source), *_reason(texts, one)]
    return said + _beats(texts, told, listed, source)


def _reason(texts: Texts, one: Facts) -> list[str]:
    """Return why an instance is unhealthy; empty if it is healthy."""
    why = one["unhealthyBecause"]
    return [texts.gettext("Unhealthy because: %(why)s.", why=texts.gettext(why))] if why else []


def _beats(texts: Texts, told: Told, listed: Mapping[str, Any], source: str) -> list[str]:
    """Return when and where the last beats came, who checks them, and who still shows an instance that vanished."""
    said = []
    one = listed[source]
    age_ms = min(each["beatAgeMs"] for each in listed.values())
    if source in listed and listed[source]["beatAgeMs"] > age_ms + BEAT_NEAR_MS:
        at = min(listed, key=lambda address: listed[address]["beatAgeMs"])
        text = N_(
            "Its last beat is %(age)s old at %(member)s, and %(owner_age)s old at %(owner)s: beats arrive at "
            "%(member)s, and are not forwarded."
        )
        owner_age = _span(texts, listed[source]["beatAgeMs"])
        said.append(texts.gettext(text, age=_span(texts, age_ms), member=at, owner_age=owner_age, owner=source))
    elif len(listed) > 1:
        # Among the others only the member that gets the beats has a recent one: a copy keeps the beat it arrived with.
        others = sorted(listed.keys() - {source})
        near = [each for each in others if listed[each]["beatAgeMs"] <= age_ms + BEAT_NEAR_MS]
        values = {"owner": source, "age": _span(texts, one["beatAgeMs"])}
        if len(near) == 1 and len(others) > 1:
            text = N_("Its last beat at %(owner)s is %(age)s old, received through %(member)s.")
            said.append(texts.gettext(text, member=near[0], **values))
        else:
            said.append(texts.gettext("Its last beat at %(owner)s is %(age)s old.", **values))
    else:
        said.append(texts.gettext("Its last beat is %(age)s old.", age=_span(texts, one["beatAgeMs"])))
    if not one["checkedHere"] and source in told:
        text = N_(
            "%(owner)s does not check its beats now: another member writes the list, or this member's view is not "
            "steady yet."
        )
        said.append(texts.gettext(text, owner=source))
    for address, held in _by(told, "heldBack").items():
        text = N_("%(member)s still shows it, for %(age)s: it vanished without being deregistered.")
        said.append(texts.gettext(text, member=address, age=_span(texts, held["leftMs"])))
    return said


def _best(told: Told, listed: Mapping[str, Any]) -> str:
    """Return the member whose facts decide: the responsible one, if it answered and has it, else the last writer's."""
    owners = [one["responsible"]["member"] for one in told.values()]
    for address in (*owners, *(one["writer"] for one in listed.values())):
        if address in listed:
            return str(address)
    return min(listed)


def _published(texts: Texts, told: Told) -> list[str]:
    clients: dict[str, dict[str, Any]] = {}
    for one in told.values():
        for each in one["published"]:
            known = clients.setdefault(each["client"], dict(each))
            if each["connectedHere"]:
                known.update(each)
    said = []
    for name, each in clients.items():
        where = each["member"] or texts.gettext("an unknown member")
        if each["connectedHere"]:
            text = N_(
                "Published by the gRPC client %(client)s, connected to %(member)s: it stays registered as long as "
                "that connection."
            )
        elif each["connectionGone"]:
            text = N_("Its client %(client)s lost the connection, and is expected to publish at another member.")
        elif where in told:
            text = N_(
                "Copied from the gRPC client %(client)s of %(member)s, where it is no longer connected: the copies "
                "will be removed."
            )
        else:
            text = N_("Copied from the gRPC client %(client)s of %(member)s, which did not answer.")
        said.append(texts.gettext(text, client=name, member=where))
        if each["connectedHere"] and each.get("healthy") is False:
            text = N_("Unhealthy because: its client published it as unhealthy. No beats or checks change that.")
            said.append(texts.gettext(text))
    return said


def _persistent(texts: Texts, told: Told) -> list[str]:
    held = _by(told, "persistent")
    if not held:
        return []
    owners = sorted({str(one["responsible"]["member"]) for one in held.values()})
    owner = owners[0] if owners[0] in held else min(held)
    one = held[owner]
    if one["healthy"]:
        text = N_("A persistent instance, held by %(members)s; %(owner)s checks it, and it is healthy.")
    else:
        text = N_("A persistent instance, held by %(members)s; %(owner)s checks it, and it is UNHEALTHY.")
    return [texts.gettext(text, members=_names(held), owner=", ".join(owners)), *_reason(texts, one)]


def _foreign(texts: Texts, told: Told) -> list[str]:
    """Return the links that brought the instance from other clusters."""
    said = []
    links = {each["link"]: each for one in told.values() for each in one.get("foreign", ())}
    for name, one in sorted(links.items()):
        links_at = {address: {each["link"] for each in facts.get("foreign", ())} for address, facts in told.items()}
        at = _names(address for address, names in links_at.items() if name in names)
        values = {"cluster": one["origin"], "link": name, "members": at, "source": one["statedBy"]}
        if one["healthy"]:
            text = N_(
                "Registered in the cluster %(cluster)s, and brought by the link %(link)s to %(members)s; it is healthy "
                "there, as %(source)s says."
            )
        else:
            text = N_(
                "Registered in the cluster %(cluster)s, and brought by the link %(link)s to %(members)s; it is "
                "UNHEALTHY there, as %(source)s says."
            )
        said.append(texts.gettext(text, **values))
        if one["stale"]:
            text = N_("The link %(link)s has not answered for %(age)s: this is its last known state.")
            said.append(texts.gettext(text, link=name, age=_span(texts, one["silentMs"])))
        elif one["kept"]:
            text = N_("The cluster %(cluster)s does not have it at the moment, and did not report a removal.")
            said.append(texts.gettext(text, cluster=one["origin"]))
    return said


def _override(texts: Texts, told: Told) -> list[str]:
    """Return what an operator changed, and until when that holds."""
    held = {address: one["override"] for address, one in told.items() if one.get("override")}
    if not held:
        return []
    newest = max(held.values(), key=lambda one: (one["atMs"], one["version"]))
    changed = []
    if newest["weight"] is not None:
        weight = f"{newest['weight']:g}"
        changed.append(texts.gettext("weight %(weight)s", weight=weight))
    if newest["enabled"] is not None:
        changed.append(texts.gettext("enabled") if newest["enabled"] else texts.gettext("disabled"))
    if newest["metadata"]:
        changed.append(texts.gettext("metadata %(keys)s", keys=", ".join(sorted(newest["metadata"]))))
    if any(_has_any(one) for one in told.values()):
        text = N_(
            "An operator changed it (%(changes)s), at %(member)s: clients see these values in place of the registered "
            "ones, until the instance has been gone for a minute."
        )
    else:
        text = N_(
            "An operator changed it (%(changes)s), at %(member)s: the change is dropped unless the instance comes back "
            "soon."
        )
    return [texts.gettext(text, changes=", ".join(changed), member=newest["by"] or texts.gettext("a member"))]


def _gone(texts: Texts, told: Told) -> list[str]:
    """Return the reasons why no member has it."""
    said = []
    for address, one in sorted(told.items()):
        for each in one["history"][-1:]:
            what = texts.gettext(each["what"])
            text = N_("%(age)s ago at %(member)s: %(event)s.")
            said.append(texts.gettext(text, age=_span(texts, each["ageMs"]), member=address, event=what))
    removed = _by(told, "removed")
    if removed:
        newest = min(removed.values(), key=lambda one: one["ageMs"])
        # A tombstone of an expiry counts from the last beat, one of a deregistration from the call.
        text = N_(
            "No member has it. %(member)s removed it (version %(version)s); it was last known to be alive %(age)s ago. "
            "The removal is recorded at %(members)s."
        )
        values = {"version": newest["version"], "age": _span(texts, newest["ageMs"]), "members": _names(removed)}
        said.append(texts.gettext(text, member=newest["by"] or texts.gettext("A member"), **values))
    persistent = _by(told, "persistentRemoved")
    if persistent:
        newest = max(persistent.values(), key=lambda one: one["atMs"])
        text = N_("A persistent instance of this address was removed, by a call taken at %(member)s.")
        said.append(texts.gettext(text, member=newest["by"]))
    if not said:
        known = any(one["serviceKnown"] for one in told.values())
        if known:
            text = N_(
                "No member knows this instance, only its service: it was never registered, or its removal has been "
                "forgotten."
            )
        else:
            text = N_(
                "No member knows this instance or its service: it was never registered, or its removal has been "
                "forgotten."
            )
        said.append(texts.gettext(text))
    return said


def _shown(texts: Texts, told: Told) -> list[str]:
    shown = _by(told, "shown")
    said = []
    hidden = [address for address, one in shown.items() if not one["inLists"]]
    if hidden:
        said.append(texts.gettext("It is disabled at %(members)s: clients do not see it.", members=_names(hidden)))
    rewritten = [address for address, one in shown.items() if one["rewritten"]]
    if rewritten:
        one = shown[rewritten[0]]
        if one["healthyInService"]:
            text = N_(
                "Clients still see it as healthy: %(healthy)s of %(count)s are healthy, and the protect threshold is "
                "%(threshold)s."
            )
            values = {"healthy": one["healthyInService"], "count": one["instancesInService"]}
            threshold = f"{one['protectThreshold']:g}"
            said.append(texts.gettext(text, threshold=threshold, **values))
        else:
            text = N_(
                "Clients still see it as healthy: no instance of the service is healthy, and lists then show all of "
                "them as healthy."
            )
            said.append(texts.gettext(text))
    return said


def _subscribers(texts: Texts, told: Told) -> list[str]:
    said = []
    for address, one in sorted(told.items()):
        behind = sum(way["behind"] for way in one["subscribers"].values())
        if behind:
            count = sum(way["count"] for way in one["subscribers"].values())
            text = N_(
                "%(behind)s of %(count)s subscribers at %(member)s have not acknowledged the service's last change."
            )
            said.append(texts.gettext(text, behind=behind, count=count, member=address))
        for each in one["pending"]:
            text = N_("%(member)s to %(peer)s: %(type)s %(state)s.")
            values = {"peer": each["peer"], "type": each["what"], "state": each["is"]}
            said.append(texts.gettext(text, member=address, **values))
    return said


def _differences(texts: Texts, told: Told) -> list[str]:
    """Return the differences between the members that answered."""
    gettext = texts.gettext
    owners = {address: str(one["responsible"]["member"]) for address, one in told.items()}
    found = _unlike(gettext("who is responsible"), owners)
    for kind, label in _KINDS.items():
        held = {address: one[kind] for address, one in told.items() if one.get(kind)}
        if held and len(held) < len(told):
            text = N_("the %(kind)s: not at %(lacking)s, held by %(members)s")
            lacking = _names(sorted(told.keys() - held.keys()))
            found.append(gettext(text, kind=gettext(label), lacking=lacking, members=_names(held)))
        for name in ("version", "healthy", "enabled", "weight", "metadata"):
            what = gettext("%(kind)s: %(field)s", kind=gettext(label), field=name)
            found.extend(_unlike(what, {address: _value_text(one.get(name)) for address, one in held.items()}))
    clients = {address: frozenset(each["client"] for each in one["published"]) for address, one in told.items()}
    if len(set(clients.values())) > 1:
        text = N_("%(member)s %(count)s client(s)")
        counts = [gettext(text, member=address, count=len(names)) for address, names in sorted(clients.items())]
        found.append(gettext("publications: %(counts)s", counts="; ".join(counts)))
    removed, listed = _by(told, "removed"), _by(told, "listed")
    if removed and listed:
        text = N_("removed at %(removed)s, but present at %(members)s")
        found.append(gettext(text, removed=_names(removed), members=_names(listed)))
    return found


_KINDS = {"listed": N_("instance list"), "persistent": N_("record"), "override": N_("operator's change")}


def _value_text(value: object) -> str:
    """Return a value as JSON has it; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _unlike(what: str, values: Mapping[str, str]) -> list[str]:
    if len(set(values.values())) < 2:
        return []
    return [f"{what}: " + "; ".join(f"{address} {value}" for address, value in sorted(values.items()))]


def _names(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))


def _span(texts: Texts, ms: int) -> str:
    """Return a duration in words: ``850 ms``, ``12.3 s``, ``7 min``."""
    _days, _hours, minutes, seconds, milliseconds = texts.gettext("d h min s ms").split()
    if ms < 1_000:
        return f"{ms} {milliseconds}"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} {seconds}"
    return f"{ms // 60_000} {minutes}"
