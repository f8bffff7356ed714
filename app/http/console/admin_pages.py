"""Namespaces and switches."""

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, form_route, page_route
from app.http.console.switch_texts import EDITED, PURPOSES

NAMESPACES, SWITCHES = "/v1/console/namespaces", "/v1/ns/operator/switches"


@page_route("/console/namespaces")
def namespaces(page: ConsolePage) -> Reply:
    """The namespaces in which the user has a right."""
    return _namespaces(page)


def _namespaces(page: ConsolePage, problem: str = "", status: int = 200) -> Reply:
    listed = page.api.get(NAMESPACES)
    edited = page.text("edit")
    return page.show(
        "namespaces.html",
        "Namespaces",
        status=status,
        nav="namespaces",
        namespaces=listed,
        edited=page.api.find(NAMESPACES, show="all", namespaceId=edited) if edited else None,
        problem=problem,
        given={name: page.text(name) for name in ("id", "name", "description")},
    )


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
        "Remove a namespace?",
        nav="namespaces",
        question=f"Remove the namespace {name}?",
        advice="Its services and instances stay, and clients go on using them; it is no longer listed here.",
        action=page.url("/console/namespaces/remove"),
        fields={"id": name},
        word="Remove",
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
        "Switches",
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
        raise ApiRefusal(400, f"The switch {name} cannot be set here.")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    try:
        page.api.send("PUT", SWITCHES, entry="batch", value=orjson.dumps({name: value}).decode())
    except ApiRefusal as refusal:
        return _switches(page, refusal.text, refusal.status)
    return page.go("/console/switches", done="switch-saved")
