"""Changes of one or many instances of a service: out of service and back, weight, metadata; first a question."""

from typing import Any
from urllib.parse import parse_qsl

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.instance_pages import PARTIAL_BATCH, metadata_of
from app.http.console.page import ConsolePage, form_route, page_route
from app.http.console.service_pages import pick_of, service_name
from app.languages.catalogues import N_
from app.naming.model.ip_addresses import host_port
from app.naming.model.keys import DEFAULT_CLUSTER, short_name_of
from app.naming.registry.remaining_instances import Candidate, Remaining, remaining_without

ASK, APPLY = "/console/instances/change", "/console/instances/apply"
PICK = "pick"
PICKED_MAX = 200
"""As many as the longest page of a list has."""
DISABLE, ENABLE, WEIGHT, METADATA = "disable", "enable", "weight", "metadata"
TITLES = {
    DISABLE: N_("Take %(instances)s of %(service)s out of service?"),
    ENABLE: N_("Put %(instances)s of %(service)s back into service?"),
    WEIGHT: N_("Set the weight of %(instances)s of %(service)s"),
    METADATA: N_("Set metadata of %(instances)s of %(service)s"),
}
BUTTONS = {
    DISABLE: N_("Take out of service"),
    ENABLE: N_("Put back"),
    WEIGHT: N_("Set weight"),
    METADATA: N_("Set metadata"),
}
Key = tuple[str, int, str]


def _picked(page: ConsolePage) -> list[Key]:
    """Return the selected instances, each once.

    Raises:
        ApiRefusal: there are none, or too many, or one is not what a box sends.
    """
    call = page.call
    sent = call.raw_query.decode("latin-1") if call.method == "GET" else call.body.decode("utf-8", "replace")
    texts = dict.fromkeys(value for name, value in parse_qsl(sent, keep_blank_values=True) if name == PICK)
    if not texts:
        raise ApiRefusal(400, page.gettext("No instance is selected: tick the boxes in front of the addresses."))
    if len(texts) > PICKED_MAX:
        raise ApiRefusal(400, page.gettext("At most %(most)s instances can be changed at once.", most=PICKED_MAX))
    return [_key(page, text) for text in texts]


def _key(page: ConsolePage, text: str) -> Key:
    try:
        ip, port, cluster = orjson.loads(text)
    except (ValueError, TypeError):
        raise ApiRefusal(400, page.gettext("The selection names no instance.")) from None
    if not (isinstance(ip, str) and type(port) is int and isinstance(cluster, str)):
        raise ApiRefusal(400, page.gettext("The selection names no instance."))
    return ip, port, cluster or DEFAULT_CLUSTER


def _remaining(page: ConsolePage, picked: list[Key]) -> tuple[Remaining, dict[Key, Candidate]]:
    """Return what remains of the service without the selected instances, and all of them as they are now."""
    asked = {"namespaceId": page.namespace, "serviceName": service_name(page)}
    threshold = page.api.get("/v1/ns/catalog/service", **asked)["service"]["protectThreshold"]
    candidates = [
        Candidate((one["ip"], one["port"], one["clusterName"]), one["healthy"], one["enabled"], one["weight"])
        for one in page.api.get("/v3/admin/ns/instance/list", **asked)
    ]
    return remaining_without(candidates, threshold, picked), {one.key: one for one in candidates}


def _action(page: ConsolePage) -> str:
    action = page.text("do")
    if action not in TITLES:
        raise ApiRefusal(400, page.gettext("The change should be one of %(known)s.", known=", ".join(TITLES)))
    return action


@page_route(ASK)
def ask_about_one(page: ConsolePage) -> Reply:
    """Show the question before a change, from a link in a row."""
    return _question(page, _picked(page))


@form_route(ASK)
def ask(page: ConsolePage) -> Reply:
    """Show the question before a change of the selected instances."""
    return _question(page, _picked(page))


def _question(page: ConsolePage, picked: list[Key], *, problem: str = "", status: int = 200) -> Reply:
    action, name = _action(page), service_name(page)
    remaining, known = _remaining(page, picked)
    one_address = host_port(*picked[0][:2])
    instances = one_address if len(picked) == 1 else page.gettext("%(count)s instances", count=len(picked))
    return page.show(
        "change.html",
        page.gettext(TITLES[action], instances=instances, service=short_name_of(name)),
        status=status,
        nav="services",
        action=action,
        apply=page.url(APPLY),
        word=page.gettext(BUTTONS[action]),
        fields={"do": action, "namespaceId": page.namespace, "serviceName": name},
        picked=[{"address": host_port(*key[:2]), "pick": pick_of(*key), "found": known.get(key)} for key in picked],
        remaining=remaining,
        text={one: page.call.parameters.get(one) or "" for one in (WEIGHT, METADATA)},
        problem=problem,
        back=page.url("/console/service", namespaceId=page.namespace, serviceName=name),
    )


def _attributes(page: ConsolePage, action: str) -> dict[str, Any]:
    """Return the parameters of the change of each instance.

    Raises:
        ApiRefusal: the form lacks a value, or it cannot be read.
    """
    if action == WEIGHT:
        if not page.text(WEIGHT):
            raise ApiRefusal(400, page.gettext("The weight is missing."))
        return {"weight": page.text(WEIGHT)}
    if action == METADATA:
        metadata = metadata_of(page.call.parameters.get(METADATA) or "", page.texts)
        if not metadata:
            raise ApiRefusal(400, page.gettext("There is no metadata to set."))
        return {"metadata": orjson.dumps(metadata).decode()}
    return {"enabled": action == ENABLE}


@form_route(APPLY)
def apply(page: ConsolePage) -> Reply:
    """Change the selected instances in one step; the owner stops it where too few healthy ones would remain."""
    action, picked = _action(page), _picked(page)
    where = {"namespaceId": page.namespace, "serviceName": service_name(page)}
    instances = orjson.dumps([{"ip": ip, "port": port, "clusterName": cluster} for ip, port, cluster in picked])
    try:
        attributes = _attributes(page, action) | {"ifEnoughRemain": not page.text("force")}
        page.api.send("PUT", PARTIAL_BATCH, **where, instances=instances.decode(), **attributes)
    except ApiRefusal as refusal:
        return _question(page, picked, problem=refusal.text, status=refusal.status)
    return page.go("/console/service", **where, done="instances-changed")
