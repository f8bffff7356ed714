"""One instance: change it, deregister it, and explain its state."""

from typing import Any

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import NOT_CHANGED_HERE, ConsolePage, form_route, page_route
from app.http.console.service_pages import service_name
from app.languages.catalogues import ENGLISH, Texts
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import DEFAULT_CLUSTER, datum_key, short_name_of
from app.operator.verdict import compare, elsewhere_words

PARTIAL_BATCH = "/v3/admin/ns/instance/partial/batch"
METADATA_LINES_MAX = 1_000
FETCH_MS = 1_000


def _asked(page: ConsolePage) -> dict[str, Any]:
    """Return the parameters that name the page's instance."""
    port = page.text("port")
    if not page.text("ip") or not port.isdigit():
        raise ApiRefusal(404, page.gettext("The address names no instance."))
    return {
        "namespaceId": page.namespace,
        "serviceName": service_name(page),
        "ip": page.text("ip"),
        "port": int(port),
        "clusterName": page.text("clusterName", DEFAULT_CLUSTER),
    }


def _of_service(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespaceId": asked["namespaceId"],
        "serviceName": asked["serviceName"],
        "cluster": asked["clusterName"],
    }


@page_route("/console/instance/edit")
def edit(page: ConsolePage) -> Reply:
    """Show the form with the present values of an instance."""
    asked = _asked(page)
    found = page.api.get("/v1/ns/instance", **asked)
    facts = page.api.get("/v1/ns/explain", **asked, local=True)
    values = {
        "weight": found["weight"],
        "enabled": not facts["shown"] or facts["shown"]["inLists"],
        "metadata": metadata_text(found["metadata"] or {}),
    }
    return _form(page, asked, beside=_is_changed_beside(facts), **values)


def _is_changed_beside(facts: dict[str, Any]) -> bool:
    """Return whether a change is kept apart from the instance, as far as this member knows."""
    return facts["override"] is not None or _is_published(facts)


def _is_published(facts: dict[str, Any]) -> bool:
    """Return whether only gRPC clients hold the instance, as far as this member knows."""
    return bool(facts["publishedCount"]) and facts["listed"] is None and facts["persistent"] is None


def _refuse_published(page: ConsolePage, facts: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse to deregister an instance that only gRPC clients hold, as far as this member knows.

    Raises:
        ApiRefusal: it is such an instance; the text says how to take it out of service.
    """
    if _is_published(facts):
        short_name, address = short_name_of(asked["serviceName"]), host_port(asked["ip"], asked["port"])
        raise ApiRefusal(
            NOT_CHANGED_HERE,
            page.gettext(
                "%(address)s of %(service)s belongs to the gRPC connection of the client that published it, and is "
                "gone when the connection ends. To take it out of service, disable it here or use rollcall drain.",
                address=address,
                service=short_name,
            ),
        )


def _form(
    page: ConsolePage, asked: dict[str, Any], *, beside: bool, problem: str = "", status: int = 200, **values: Any
) -> Reply:
    return page.show(
        "instance_edit.html",
        page.gettext("Change %(address)s", address=host_port(asked["ip"], asked["port"])),
        status=status,
        nav="services",
        asked=asked,
        short_name=short_name_of(asked["serviceName"]),
        back=page.url("/console/service", **_of_service(asked)),
        problem=problem,
        beside=beside,
        **values,
    )


@form_route("/console/instance/edit")
def save(page: ConsolePage) -> Reply:
    """Change weight, metadata and visibility of an instance; the form shows invalid values again."""
    asked = _asked(page)
    text, weight, enabled = page.call.parameters.get("metadata") or "", page.text("weight"), bool(page.text("enabled"))
    facts = page.api.get("/v1/ns/explain", **asked, local=True)
    beside = _is_changed_beside(facts)
    try:
        metadata = metadata_of(text, page.texts)
        leaves = _leaves(facts, weight, enabled)
        kept = (facts["shown"]["weight"] if enabled else weight, True) if leaves else (weight, enabled)
        changed = _changed(facts, *kept, metadata) if beside else _whole(*kept, metadata)
        if changed:
            page.api.send("PATCH", "/v1/ns/instance", **asked, **changed)
        if leaves:
            _take_out(page, asked, weight, enabled=enabled)
    except ApiRefusal as refusal:
        values = {"weight": weight, "enabled": enabled, "metadata": text}
        return _form(page, asked, beside=beside, problem=refusal.text, status=refusal.status, **values)
    _fetch_written(page, asked)
    return page.go("/console/service", **_of_service(asked), done="instance-saved")


def _take_out(page: ConsolePage, asked: dict[str, Any], weight: str, *, enabled: bool) -> None:
    """Have the owner take the instance out of service.

    Raises:
        ApiRefusal: too few healthy instances would remain; the text says where to do it all the same.
    """
    named = orjson.dumps([{"ip": asked["ip"], "port": asked["port"], "clusterName": asked["clusterName"]}]).decode()
    change = {"weight": weight} if enabled else {"enabled": False}
    try:
        page.api.send("PUT", PARTIAL_BATCH, **_of_service(asked), instances=named, ifEnoughRemain=True, **change)
    except ApiRefusal as refusal:
        if refusal.status == NOT_CHANGED_HERE:
            text = page.gettext(
                "The instance stays in service, and its other values are saved: %(why)s. To take it out anyway, use "
                "the button Take out on the page of the service.",
                why=refusal.text,
            )
            raise ApiRefusal(refusal.status, text) from None
        raise


def _leaves(facts: dict[str, Any], weight: str, enabled: bool) -> bool:
    """Return whether clients lose an instance by a change of its weight or state."""
    shown = facts["shown"]
    try:
        is_zero = float(weight) == 0
    except ValueError:
        return False  # the call refuses it by name
    return bool(shown and shown["inLists"] and shown["weight"] and (not enabled or is_zero))


def _whole(weight: str | float, enabled: bool, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of a PATCH that sets all attributes: it leaves blank ones alone; null is the empty map."""
    return {"weight": weight, "enabled": enabled, "metadata": orjson.dumps(metadata or None).decode()}


def _changed(facts: dict[str, Any], weight: str | float, enabled: bool, metadata: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of a PATCH that sets only the attributes which the form changed.

    An attribute that is kept apart from the instance hides all values that the client registers later.
    """
    shown = facts["shown"] or {"weight": None, "inLists": None, "metadata": {}}
    kept: dict[str, str] = (facts["override"] or {}).get("metadata") or {}
    beside = {key: one for key, one in metadata.items() if key in kept or shown["metadata"].get(key) != one}
    changed = _whole(weight, enabled, beside)
    if str(weight) == str(shown["weight"]):
        del changed["weight"]
    if enabled is shown["inLists"]:
        del changed["enabled"]
    if beside == kept:
        del changed["metadata"]
    return changed


def _fetch_written(page: ConsolePage, asked: dict[str, Any]) -> None:
    """Fetch the owner's latest writes of a service, so that the next page shows them. A failure is ignored."""
    services, service = page.services, asked["serviceName"]
    owner = services.cluster.map_srv(service)
    if owner != services.cluster.self_address:
        services.replication.refresh(owner, (datum_key(asked["namespaceId"], service),), FETCH_MS)


def metadata_text(metadata: dict[str, str]) -> str:
    """Return metadata as lines ``key=value``, which ``metadata_of`` reads; as JSON if lines cannot express it."""
    fits = all(
        key == key.strip() and key and not key.startswith("{") and "=" not in key and "\n" not in f"{key}{value}"
        for key, value in metadata.items()
    )
    if not fits or any(not isinstance(one, str) or one != one.strip() for one in metadata.values()):
        return orjson.dumps(metadata, option=orjson.OPT_INDENT_2).decode()
    return "\n".join(f"{key}={value}" for key, value in metadata.items())


def metadata_of(text: str, texts: Texts) -> dict[str, str]:
    """Return the metadata in a form's text: lines ``key=value``, or one JSON object.

    Raises:
        ApiRefusal: the text is neither; the message names the line.
    """
    text = text.strip()
    if text.startswith("{"):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ApiRefusal(400, texts.gettext("The metadata is not valid JSON: %(error)s.", error=error)) from None
        if not all(isinstance(one, str) for one in value.values()):
            raise ApiRefusal(400, texts.gettext("Each value of the metadata should be a text."))
        return dict(value)
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines()[:METADATA_LINES_MAX], start=1):
        key, sign, value = line.partition("=")
        if line.strip() and not (sign and key.strip()):
            raise ApiRefusal(400, texts.gettext("Line %(number)s of the metadata is not key=value.", number=number))
        if key.strip():
            found[key.strip()] = value.strip()
    return found


@page_route("/console/instance/remove")
def ask_to_remove(page: ConsolePage) -> Reply:
    """Ask whether to deregister an instance."""
    asked = _asked(page)
    facts = page.api.get("/v1/ns/explain", **asked, local=True)
    _refuse_published(page, facts, asked)
    persistent = facts["persistent"] is not None
    if persistent:
        advice = page.gettext("Clients stop getting it at once. It is a persistent instance, and is deleted for good.")
    else:
        advice = page.gettext("Clients stop getting it at once. If its process runs, its next beat registers it again.")
    address = host_port(asked["ip"], asked["port"])
    return page.show(
        "confirm.html",
        page.gettext("Deregister %(address)s?", address=address),
        nav="services",
        question=page.gettext(
            "Deregister %(address)s of %(service)s?", address=address, service=short_name_of(asked["serviceName"])
        ),
        advice=advice,
        action=page.url("/console/instance/remove"),
        fields={**asked, "ephemeral": "false" if persistent else "true"},
        word=page.gettext("Deregister"),
        back=page.url("/console/service", **_of_service(asked)),
    )


@form_route("/console/instance/remove")
def remove(page: ConsolePage) -> Reply:
    """Deregister an instance."""
    asked = _asked(page)
    page.api.send("DELETE", "/v1/ns/instance", **asked, ephemeral=page.text("ephemeral", "true"))
    _fetch_written(page, asked)
    return page.go("/console/service", **_of_service(asked), done="instance-removed")


@page_route("/console/explain")
def explain(page: ConsolePage) -> Reply:
    """Explain an instance's state: the knowledge of all members, side by side, with a verdict."""
    told = None
    if page.text("ip"):
        told = page.api.get("/v1/ns/explain", **_asked(page) | {"clusterName": page.text("clusterName") or None})
        if page.texts.language != ENGLISH:
            verdict, told["differences"] = compare(told["members"], told["notAnswered"], page.texts)
            places = [(one["serviceName"], one["clusterName"]) for one in told["elsewhere"] if one["held"]]
            told["verdict"] = [*verdict, *elsewhere_words(places, page.texts)]
    return page.show(
        "explain.html",
        page.gettext("Explain an instance"),
        nav="services",
        told=told,
        service=page.text("serviceName"),
        ip=page.text("ip"),
        port=page.text("port"),
        cluster=page.text("clusterName"),
    )
