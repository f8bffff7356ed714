"""Services: the list, and one of them with its instances."""

from typing import Any

import orjson

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, page_route
from app.languages.catalogues import N_
from app.naming.model.keys import DEFAULT_NAMESPACE, GROUP_SPLITTER, group_of, short_name_of

SIZES = (20, 50, 100, 200)
PAGES_MAX = 10_000_000
GRPC, BEATS, PERSISTENT = "gRPC", "HTTP", N_("persistent")
SUBSCRIBERS_MAX = 50
SEARCH = "/v1/ns/instance/search"
STATES = (N_("unhealthy"), N_("disabled"), N_("healthy"))
"""The states that can filter instances."""


def page_of(page: ConsolePage) -> tuple[int, int]:
    """Return the number and the size of the requested page of a list."""
    return page.number("page", 1, PAGES_MAX), page.number("size", SIZES[0], SIZES[-1])


def sort_of(page: ConsolePage, default: str) -> dict[str, Any]:
    """Return the parameters that sort a list: ``orderBy``, the name of a column, and ``descending``."""
    return {"orderBy": page.text("sort", default), "descending": page.text("down") == "1"}


def pick_of(ip: str, port: int, cluster: str) -> str:
    """Return the value of the box that selects an instance."""
    return orjson.dumps([ip, port, cluster]).decode()


def pager(count: int, number: int, size: int) -> dict[str, int]:
    """Return the values of the line below a list."""
    return {"count": count, "number": number, "size": size, "pages": max(-(-count // size), 1)}


def namespaces_of(page: ConsolePage) -> list[dict[str, str]]:
    """Return the namespaces to choose from: those that were created, and the one that is shown. Shape: id, name."""
    listed = [
        {"id": one["namespace"] or DEFAULT_NAMESPACE, "name": one["namespaceShowName"]}
        for one in page.api.get("/v1/console/namespaces")
    ]
    if page.namespace not in {one["id"] for one in listed}:
        listed.append({"id": page.namespace, "name": page.namespace})
    return listed


def to_own_namespace(page: ConsolePage, path: str) -> Reply | None:
    """Redirect to a namespace of the user if none was requested and the user has no right in the public one."""
    if page.text("namespaceId"):
        return None
    own = [one["namespace"] or DEFAULT_NAMESPACE for one in page.api.get("/v1/console/namespaces")]
    return page.go(path, namespaceId=own[0]) if own and DEFAULT_NAMESPACE not in own else None


@page_route("/console/services")
def service_list(page: ConsolePage) -> Reply:
    """Show one page of the services of a namespace that pass the filters."""
    if elsewhere := to_own_namespace(page, "/console/services"):
        return elsewhere
    number, size = page_of(page)
    filters = {"name": page.text("name"), "group": page.text("group"), "filled": page.text("filled")}
    filters["unhealthy"] = page.text("unhealthy")
    sort, problem = sort_of(page, "name"), ""
    found: dict[str, Any] = {"serviceList": [], "count": 0}
    try:
        found = page.api.get(
            "/v1/ns/service/search",
            namespaceId=page.namespace,
            pageNo=number,
            pageSize=size,
            name=filters["name"] or None,
            group=filters["group"] or None,
            hasInstances=bool(filters["filled"]),
            hasUnhealthy=bool(filters["unhealthy"]),
            **sort,
        )
    except ApiRefusal as refusal:
        problem = refusal.text
    return page.show(
        "services.html",
        page.gettext("Services"),
        nav="services",
        namespaces=namespaces_of(page),
        filters=filters,
        sort=sort,
        services=found["serviceList"],
        pager=pager(found["count"], number, size),
        sizes=SIZES,
        problem=problem,
        splitter=GROUP_SPLITTER,
    )


@page_route("/console/service")
def service(page: ConsolePage) -> Reply:
    """Show one service: its description, its state at each member, its instances, its subscribers."""
    name = service_name(page)
    asked = {"namespaceId": page.namespace, "serviceName": name}
    detail = page.api.get("/v1/ns/catalog/service", **asked)
    clusters = [one["name"] for one in detail["clusters"]]
    chosen = page.text("cluster") if page.text("cluster") in clusters else ""
    number, size = page_of(page)
    filters = {name: page.text(name) for name in ("text", "state", "source")} | {"cluster": chosen}
    sort, problem = sort_of(page, "address"), ""
    found: dict[str, Any] = {"instances": [], "count": 0}
    try:
        limits = {"text": filters["text"] or None, "state": filters["state"] or None}
        limits |= {"source": filters["source"] or None, "clusterName": chosen or None}
        found = page.api.get(SEARCH, **asked, **limits, **sort, pageNo=number, pageSize=size)
    except ApiRefusal as refusal:
        problem = refusal.text
    beats = _beats(page, asked, found["instances"])
    versions = page.api.get("/v1/ns/service/versions", **asked)
    agrees = agree(versions)
    if not agrees and not versions["notAnswered"]:
        page.services.content_checks.suspect(page.namespace, name)
    return page.show(
        "service.html",
        short_name_of(name),
        nav="services",
        live=page.url("/console/events/service", **asked),
        full_name=name,
        group=group_of(name),
        service=detail["service"],
        clusters=detail["clusters"],
        filters=filters,
        sort=sort,
        problem=problem,
        states=STATES,
        sources=(BEATS, GRPC, PERSISTENT),
        instances=_instances(page, asked, chosen, found["instances"], beats),
        beats=beats,
        pager=pager(found["count"], number, size),
        sizes=SIZES,
        versions=versions,
        agrees=agrees,
        subscribers=subscribers_of(page, asked),
    )


def service_name(page: ConsolePage) -> str:
    """Return the full name of the page's service."""
    name = page.call.parameters.service_name()
    if not name:
        raise ApiRefusal(404, page.gettext("The address names no service."))
    return name


def agree(versions: dict[str, Any]) -> bool:
    """Return whether all members answered, and all hold the same state of a service."""
    held = {(one["instances"], one["healthy"], one["digest"]) for one in versions["members"].values()}
    return len(held) == 1 and not versions["notAnswered"]


def _instances(
    page: ConsolePage, asked: dict[str, str], cluster: str, listed: list[dict[str, Any]], beats: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows of instances, with the source of each, and its health as clients see it; None if they do not."""
    if not listed:
        return []
    hosts = page.api.get("/v1/ns/instance/list", **asked, clusters=cluster)["hosts"]
    shown = {(one["ip"], one["port"], one["clusterName"]): one["healthy"] for one in hosts}
    publishers: dict[tuple[str, int], list[str]] = {}
    for one in page.api.get("/v2/ns/client/service/publisher/list", **asked):
        publishers.setdefault((one["ip"], one["port"]), []).append(one["clientId"])
    ages = {(one["ip"], one["port"], one["clusterName"]): one["ageMs"] for one in beats["beats"]}
    return [
        {
            **one,
            "shown": shown.get((one["ip"], one["port"], one["clusterName"])),
            "source": source_of(one["ephemeral"], publishers.get((one["ip"], one["port"]), [])),
            "clients": [client for client in publishers.get((one["ip"], one["port"]), []) if "#" not in client],
            "pick": pick_of(one["ip"], one["port"], one["clusterName"]),
            "age_ms": ages.get((one["ip"], one["port"], one["clusterName"])),
        }
        for one in listed
    ]


def _beats(page: ConsolePage, asked: dict[str, str], listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the ages of the last beats, and the member that counts them; it is asked only if something may beat."""
    if not any(one["ephemeral"] for one in listed):
        return {"member": "", "answered": True, "beats": []}
    found: dict[str, Any] = page.api.get("/v1/ns/service/beats", **asked)
    return found


def source_of(ephemeral: bool, clients: list[str]) -> str:
    """Return how an instance came: the id of an HTTP client is an address with a ``#``, that of gRPC a connection."""
    if not ephemeral:
        return PERSISTENT
    return GRPC if clients and all("#" not in client for client in clients) else BEATS


def subscribers_of(page: ConsolePage, asked: dict[str, str]) -> dict[str, Any] | None:
    """Return a service's subscribers at all members; None for users without the right."""
    found: dict[str, Any] | None = page.api.find("/v1/ns/service/subscribers/all", **asked)
    if found is None:
        return None
    return {
        "listed": found["subscribers"][:SUBSCRIBERS_MAX],
        "count": found["count"],
        "silent": found["notAnswered"],
        "other_kinds": found["otherKinds"],
    }
