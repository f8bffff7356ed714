"""Services: create and describe one, set how its persistent instances are checked, remove it, and heal its copies."""

from math import isfinite
from typing import Any
from urllib.parse import quote

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.instance_pages import metadata_of, metadata_text
from app.http.console.page import ConsolePage, form_route, page_route
from app.http.console.service_pages import namespaces_of, service_name
from app.http.v1.heal import HEAL_OF_MEMBER
from app.naming.model.keys import DEFAULT_CLUSTER, DEFAULT_GROUP, compose_service_name, group_of, short_name_of
from app.peers.asked import ask_members

SERVICE, CLUSTER, HEAL = "/v1/ns/service", "/v1/ns/cluster", "/v1/ns/operator/heal"
DIFFERENCES = "/v1/ns/service/differences"
CHECKERS = ("TCP", "HTTP", "MYSQL", "NONE")
HEAL_S = 1.5
"""All members are asked to heal at once, and have so long to answer."""


def _asked(page: ConsolePage) -> dict[str, str]:
    return {"namespaceId": page.namespace, "serviceName": service_name(page)}


def _threshold(page: ConsolePage) -> str:
    """Return the threshold of a form.

    Raises:
        ApiRefusal: it is not a share.
    """
    text = page.text("protectThreshold", "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not isfinite(value) or not 0 <= value <= 1:
        raise ApiRefusal(400, page.gettext("The protect threshold should be a number from 0 to 1."))
    return text


def _metadata(page: ConsolePage) -> str:
    return orjson.dumps(metadata_of(page.call.parameters.get("metadata") or "", page.texts)).decode()


# --- create and describe ------------------------------------------------------------------------------


@page_route("/console/service/create")
def new_service(page: ConsolePage) -> Reply:
    """Show the form for a new service."""
    return _create_form(page)


def _create_form(page: ConsolePage, problem: str = "", status: int = 200) -> Reply:
    return page.show(
        "service_edit.html",
        page.gettext("Create a service"),
        status=status,
        nav="services",
        is_new=True,
        namespaces=namespaces_of(page),
        name=page.text("name"),
        group=page.text("group", DEFAULT_GROUP),
        threshold=page.text("protectThreshold", "0"),
        metadata=page.call.parameters.get("metadata") or "",
        expression="",
        action=page.url("/console/service/create"),
        back=page.url("/console/services", namespaceId=page.namespace),
        problem=problem,
    )


@form_route("/console/service/create")
def create_service(page: ConsolePage) -> Reply:
    """Create a service; the form shows invalid values again."""
    name, group = page.text("name"), page.text("group", DEFAULT_GROUP)
    try:
        if not name or "@@" in name or "@@" in group:
            raise ApiRefusal(400, page.gettext("A service needs a name; name and group may not contain @@."))
        full_name = compose_service_name(name, group)
        asked = {"namespaceId": page.namespace, "serviceName": full_name}
        page.api.send("POST", SERVICE, **asked, protectThreshold=_threshold(page), metadata=_metadata(page))
    except ApiRefusal as refusal:
        return _create_form(page, refusal.text, refusal.status)
    return page.go("/console/service", **asked, done="service-saved")


@page_route("/console/service/edit")
def edit_service(page: ConsolePage) -> Reply:
    """Show the form with the description of a service."""
    asked = _asked(page)
    found = page.api.get("/v1/ns/catalog/service", **asked)["service"]
    values = {
        "threshold": str(found["protectThreshold"]),
        "metadata": metadata_text(found["metadata"] or {}),
        "expression": found["selector"].get("expression") or "",
    }
    return _edit_form(page, asked, values)


def _edit_form(
    page: ConsolePage, asked: dict[str, str], values: dict[str, str], problem: str = "", status: int = 200
) -> Reply:
    name = asked["serviceName"]
    return page.show(
        "service_edit.html",
        page.gettext("Describe %(service)s", service=short_name_of(name)),
        status=status,
        nav="services",
        is_new=False,
        namespaces=[],
        name=name,
        group=group_of(name),
        action=page.url("/console/service/edit"),
        back=page.url("/console/service", **asked),
        problem=problem,
        **values,
    )


@form_route("/console/service/edit")
def save_service(page: ConsolePage) -> Reply:
    """Replace the description of a service; the form shows invalid values again."""
    asked, expression = _asked(page), page.text("expression")
    selector = {"type": "label", "expression": expression} if expression else {"type": "none"}
    try:
        page.api.send(
            "PUT",
            SERVICE,
            **asked,
            protectThreshold=_threshold(page),
            metadata=_metadata(page),
            selector=quote(orjson.dumps(selector)),
        )
    except ApiRefusal as refusal:
        values = {
            "threshold": page.text("protectThreshold"),
            "metadata": page.call.parameters.get("metadata") or "",
            "expression": expression,
        }
        return _edit_form(page, asked, values, refusal.text, refusal.status)
    return page.go("/console/service", **asked, done="service-saved")


# --- health checks ------------------------------------------------------------------------------------


@page_route("/console/service/cluster")
def edit_cluster(page: ConsolePage) -> Reply:
    """Show how a cluster's persistent instances are checked."""
    asked, name = _asked(page), page.text("clusterName", DEFAULT_CLUSTER)
    clusters = page.api.get("/v1/ns/catalog/service", **asked)["clusters"]
    found = next((one for one in clusters if one["name"] == name), None)
    checker = found["healthChecker"] if found else {"type": "TCP"}
    values = {
        "type": checker["type"],
        "path": checker.get("path", ""),
        "headers": checker.get("headers", ""),
        "code": str(checker.get("expectedResponseCode", 200)),
        "port": str(found["defCkport"] if found else 80),
        "own_port": found["useIPPort4Check"] if found else True,
        "metadata": metadata_text((found or {}).get("metadata") or {}),
    }
    return _cluster_form(page, asked, name, values)


def _cluster_form(
    page: ConsolePage, asked: dict[str, str], cluster: str, values: dict[str, Any], problem: str = "", status: int = 200
) -> Reply:
    return page.show(
        "cluster_edit.html",
        page.gettext("Health checks of %(service)s", service=short_name_of(asked["serviceName"])),
        status=status,
        nav="services",
        asked=asked,
        cluster=cluster,
        checkers=CHECKERS,
        values=values,
        back=page.url("/console/service", **asked),
        problem=problem,
    )


@form_route("/console/service/cluster")
def save_cluster(page: ConsolePage) -> Reply:
    """Set how a cluster's persistent instances are checked; the form shows invalid values again."""
    asked, name = _asked(page), page.text("clusterName", DEFAULT_CLUSTER)
    values: dict[str, Any] = {one: page.text(one) for one in ("type", "headers", "code", "port")}
    values |= {
        "path": page.text("checkPath"),
        "own_port": bool(page.text("own_port")),
        "metadata": page.call.parameters.get("metadata") or "",
    }
    checker: dict[str, Any] = {"type": values["type"]}
    if values["type"] == "HTTP":
        checker |= {one: values[one] for one in ("path", "headers")} | {"expectedResponseCode": values["code"] or 200}
    try:
        if values["type"] not in CHECKERS:
            raise ApiRefusal(400, page.gettext("The checker should be one of %(known)s.", known=", ".join(CHECKERS)))
        page.api.send(
            "PUT",
            CLUSTER,
            **asked,
            clusterName=name,
            checkPort=values["port"],
            useInstancePort4Check=values["own_port"],
            healthChecker=orjson.dumps(checker).decode(),
            metadata=_metadata(page),
        )
    except ApiRefusal as refusal:
        return _cluster_form(page, asked, name, values, refusal.text, refusal.status)
    return page.go("/console/service", **asked, cluster=name, done="cluster-saved")


# --- remove -------------------------------------------------------------------------------------------


@page_route("/console/service/remove")
def ask_to_remove_service(page: ConsolePage) -> Reply:
    """Ask whether a service is to be removed."""
    asked = _asked(page)
    clusters = page.api.get("/v1/ns/catalog/service", **asked)["clusters"]
    filled = [one["name"] for one in clusters if not one["empty"]]
    advice = page.gettext("Its description is deleted. It has no instances.")
    if filled:
        count = page.services.naming.instance_count(page.namespace, asked["serviceName"])
        deleted = page.ngettext(
            "Its description is deleted, and its instance is deregistered.",
            "Its description is deleted, and its %(count)s instances are deregistered.",
            count,
            count=count,
        )
        stay = page.gettext(
            "Instances whose process runs register again with their next beat; instances of gRPC clients stay while "
            "they are connected."
        )
        advice = f"{deleted} {stay}"
    short_name = short_name_of(asked["serviceName"])
    return page.show(
        "confirm.html",
        page.gettext("Remove %(name)s?", name=short_name),
        nav="services",
        question=page.gettext(
            "Remove the service %(service)s of the group %(group)s?",
            service=short_name,
            group=group_of(asked["serviceName"]),
        ),
        advice=advice,
        action=page.url("/console/service/remove"),
        fields=asked,
        word=page.gettext("Remove"),
        back=page.url("/console/service", **asked),
    )


@form_route("/console/service/remove")
def remove_service(page: ConsolePage) -> Reply:
    """Remove a service, with its instances."""
    page.api.send("DELETE", SERVICE, **_asked(page))
    return page.go("/console/services", namespaceId=page.namespace, done="service-removed")


# --- differences between members ------------------------------------------------------------------------


@page_route("/console/service/differences")
def differences(page: ConsolePage) -> Reply:
    """Show which instances of a service the members hold differently."""
    asked = _asked(page)
    return page.show(
        "differences.html",
        page.gettext("Differences of %(service)s", service=short_name_of(asked["serviceName"])),
        nav="services",
        told=page.api.get(DIFFERENCES, **asked),
        asked=asked,
        short_name=short_name_of(asked["serviceName"]),
        back=page.url("/console/service", **asked),
        silent=page.text("silent"),
    )


@form_route("/console/service/heal")
def heal(page: ConsolePage) -> Reply:
    """Have all members exchange a service; this one refuses it for all if its user may not."""
    asked = _asked(page)
    page.api.send("POST", HEAL, **asked)
    found, _ = ask_members(page.services, "POST", HEAL_OF_MEMBER, asked, HEAL_S, down_too=False)
    silent = ", ".join(sorted(address for address, one in found.items() if one is None))
    return page.go("/console/service/differences", **asked, done="service-healed", silent=silent)
