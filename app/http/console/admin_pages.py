"""Namespaces and switches."""

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, form_route, page_route
from app.languages.catalogues import N_
from app.naming.model.keys import DEFAULT_NAMESPACE
from app.operator.switch_effects import effect_of, warning_of

NAMESPACES, SWITCHES = "/v1/console/namespaces", "/v1/ns/operator/switches"
PURPOSES = {
    "healthCheckEnabled": N_("Beats and active checks change the health of instances."),
    "pushEnabled": N_("Changes are pushed to subscribers over UDP."),
    "distroEnabled": N_("A switch of Nacos that Rollcall ignores."),
    "lightBeatEnabled": N_("Clients may send short beats, without the description of the instance."),
    "defaultInstanceEphemeral": N_("The kind of an instance that is registered without one."),
    "clientBeatInterval": N_("How often clients send a beat (ms)."),
    "defaultCacheMillis": N_("How often clients without pushes ask for a list again (ms)."),
    "defaultPushCacheMillis": N_("How often clients with pushes ask for a list again (ms)."),
    "checkTimes": N_("Active checks in a row that must agree before the health changes."),
    "distroThreshold": N_("A switch of Nacos that Rollcall ignores."),
    "overriddenServerStatus": N_("A status that all members report instead of the real one; null removes it."),
    "limitedUrlMap": N_("Paths that get only a status as their answer, as JSON."),
    "httpHealthParams": N_("How often HTTP checks run: least and most (ms), and the factor between."),
    "tcpHealthParams": N_("How often TCP checks run: least and most (ms), and the factor between."),
    "pushJavaVersion": N_("The least version of Java clients that get pushes."),
    "pushGoVersion": N_("The least version of Go clients that get pushes."),
    "pushCVersion": N_("The least version of C clients that get pushes."),
    "pushPythonVersion": N_("The least version of Python clients that get pushes."),
}
"""The effect of each switch, in a sentence."""
EDITED = frozenset(PURPOSES) - {"distroEnabled", "distroThreshold"}
"""The switches that the console sets. It only shows the others: Rollcall ignores them, or they are set elsewhere."""


@page_route("/console/namespaces")
def namespaces(page: ConsolePage) -> Reply:
    """The namespaces in which the user has a right."""
    return _namespaces(page)


def _namespaces(page: ConsolePage, problem: str = "", status: int = 200) -> Reply:
    listed = page.api.get(NAMESPACES)
    counts = _counts(page)
    known = {one["namespace"] or DEFAULT_NAMESPACE for one in listed}
    edited = page.text("edit")
    return page.show(
        "namespaces.html",
        page.gettext("Namespaces"),
        status=status,
        nav="namespaces",
        namespaces=[{**one, "counts": counts.get(one["namespace"] or DEFAULT_NAMESPACE, (0, 0))} for one in listed],
        uncreated=[(name, counts[name]) for name in sorted(counts.keys() - known)] if page.is_admin else [],
        edited=page.api.find(NAMESPACES, show="all", namespaceId=edited) if edited else None,
        problem=problem,
        given={name: page.text(name) for name in ("id", "name", "description")},
    )


def _counts(page: ConsolePage) -> dict[str, tuple[int, int]]:
    """Return the numbers of services and instances of each namespace that has any, as this member holds them."""
    found = page.services.naming
    return {
        namespace: (len(names), sum(found.instance_count(namespace, name) for name in names))
        for namespace in found.namespaces()
        if (names := list(found.named(namespace) or ()))
    }


@form_route("/console/namespaces")
def create_namespace(page: ConsolePage) -> Reply:
    """Create a namespace."""
    try:
        page.api.send(
            "POST",
            NAMESPACES,
            customNamespaceId=page.text("id"),
            namespaceName=page.text("name"),
            namespaceDesc=page.text("description"),
        )
    except ApiRefusal as refusal:
        return _namespaces(page, refusal.text, refusal.status)
    return page.go("/console/namespaces", done="namespace-saved")


@form_route("/console/namespaces/edit")
def update_namespace(page: ConsolePage) -> Reply:
    """Rename a namespace."""
    page.api.send(
        "PUT",
        NAMESPACES,
        namespace=page.text("id"),
        namespaceShowName=page.text("name"),
        namespaceDesc=page.text("description"),
    )
    return page.go("/console/namespaces", done="namespace-saved")


@page_route("/console/namespaces/remove")
def ask_to_remove_namespace(page: ConsolePage) -> Reply:
    """Ask whether a namespace is to be removed."""
    name = page.text("id")
    return page.show(
        "confirm.html",
        page.gettext("Remove a namespace?"),
        nav="namespaces",
        question=page.gettext("Remove the namespace %(name)s?", name=name),
        advice=page.gettext(
            "Its services and instances stay, and clients keep using them; it is no longer listed here."
        ),
        action=page.url("/console/namespaces/remove"),
        fields={"id": name},
        word=page.gettext("Remove"),
        back=page.url("/console/namespaces"),
    )


@form_route("/console/namespaces/remove")
def remove_namespace(page: ConsolePage) -> Reply:
    """Remove a namespace."""
    page.api.send("DELETE", NAMESPACES, namespaceId=page.text("id"))
    return page.go("/console/namespaces", done="namespace-removed")


# --- switches -----------------------------------------------------------------------------------


@page_route("/console/switches")
def switches(page: ConsolePage) -> Reply:
    """All switches with their values."""
    return _switches(page)


def _switches(page: ConsolePage, problem: str = "", status: int = 200) -> Reply:
    values = page.api.get(SWITCHES)
    entries = [
        {
            "name": name,
            "value": value if isinstance(value, str) else orjson.dumps(value).decode(),
            "purpose": PURPOSES.get(name, ""),
            "is_flag": isinstance(value, bool),
            "is_edited": name in EDITED,
        }
        for name, value in values.items()
        if name not in ("name", "checksum")
    ]
    return page.show(
        "switches.html",
        page.gettext("Switches"),
        status=status,
        nav="switches",
        switches=sorted(entries, key=lambda one: (not one["is_edited"], one["name"].lower())),
        problem=problem,
    )


@form_route("/console/switches")
def set_switch(page: ConsolePage) -> Reply:
    """Set one switch, on all members."""
    name, text = page.text("name"), page.text("value")
    if name not in EDITED:
        raise ApiRefusal(400, page.gettext("The switch %(name)s cannot be set here.", name=name))
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    if (effect := effect_of(name, value, page.texts)) and not page.text("sure"):
        return _ask_about_switch(page, name, text, effect)
    try:
        page.api.send("PUT", SWITCHES, entry="batch", value=orjson.dumps({name: value}).decode())
    except ApiRefusal as refusal:
        return _switches(page, refusal.text, refusal.status)
    return page.go("/console/switches", done="switch-saved")


def _ask_about_switch(page: ConsolePage, name: str, text: str, effect: str) -> Reply:
    """Ask whether a switch that harms clients is to be set, with the number of these clients."""
    counts = page.api.get("/v3/admin/ns/ops/metrics", onlyStatus=False)
    connections, all_clients = counts["connectionBasedClientCount"], counts["clientCount"]
    return page.show(
        "confirm.html",
        page.gettext("Set %(name)s?", name=name),
        nav="switches",
        question=page.gettext("Set %(name)s to %(value)s?", name=name, value=text),
        advice=warning_of(name, effect, connections, all_clients - connections, page.texts),
        action=page.url("/console/switches"),
        fields={"name": name, "value": text, "sure": "1"},
        word=page.gettext("Set %(name)s", name=name),
        back=page.url("/console/switches"),
    )
