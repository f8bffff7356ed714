"""Clients: the gRPC connections of this member, all clients, one of them; subscribers."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, page_route
from app.http.console.service_pages import SIZES, namespaces_of, page_of, pager, to_own_namespace
from app.naming.model.keys import GROUP_SPLITTER

CLIENT = "/v2/ns/client"


@page_route("/console/clients")
def clients(page: ConsolePage) -> Reply:
    """List the client ids that contain a text, page by page, with the connections of those connected here."""
    number, size = page_of(page)
    wanted = page.text("id")
    found = page.api.get(f"{CLIENT}/search", clientId=wanted, pageNo=number, pageSize=size)
    connections = _connections(page, found["clientIds"])
    return page.show(
        "clients.html",
        "Clients",
        nav="clients",
        wanted=wanted,
        clients=[{"id": one, "connection": connections.get(one)} for one in found["clientIds"]],
        connected=found["connected"],
        pager=pager(found["count"], number, size),
        sizes=SIZES,
    )


@page_route("/console/client")
def client(page: ConsolePage) -> Reply:
    """Show one client: its own description, its instances and its subscriptions."""
    wanted = page.text("id")
    if not wanted:
        raise ApiRefusal(404, "The address names no client.")
    return page.show(
        "client.html",
        "Client",
        nav="clients",
        client=page.api.get(CLIENT, clientId=wanted),
        connection=_connections(page, [wanted]).get(wanted, {}),
        published=_named(page.api.get(f"{CLIENT}/publish/list", clientId=wanted)),
        subscribed=_named(page.api.find(f"{CLIENT}/subscribe/list", clientId=wanted) or []),
    )


def _connections(page: ConsolePage, ids: list[str]) -> dict[str, Any]:
    """Return the data of those clients that are connected here, by id."""
    # No connection has an id with a comma.
    wanted = [one for one in ids if "#" not in one and "," not in one]
    if page.services.loader is None or not wanted:
        return {}
    told = page.api.get("/v2/core/loader/current", connectionId=",".join(wanted))
    return {client_id: one["metaInfo"] for client_id, one in told.items()}


def _named(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries with the full name of their service."""
    return [{**one, "full_name": f"{one['group']}{GROUP_SPLITTER}{one['serviceName']}"} for one in listed]


@page_route("/console/subscribers")
def subscribers(page: ConsolePage) -> Reply:
    """The subscribers over UDP, at all members, of services whose name contains a text."""
    if elsewhere := to_own_namespace(page, "/console/subscribers"):
        return elsewhere
    number, size = page_of(page)
    name = page.text("name")
    found = page.api.get(
        "/v1/ns/service/subscribers",
        namespaceId=page.namespace,
        serviceName=name if GROUP_SPLITTER in name else f"{page.text('group')}{GROUP_SPLITTER}{name}",
        pageNo=number,
        pageSize=size,
        aggregation=True,
    )
    return page.show(
        "subscribers.html",
        "Subscribers",
        nav="subscribers",
        namespaces=namespaces_of(page),
        filters={"name": name, "group": page.text("group")},
        subscribers=found["subscribers"],
        pushes=page.api.find("/v1/ns/operator/push/state"),
        pager=pager(found["count"], number, size),
        sizes=SIZES,
    )
