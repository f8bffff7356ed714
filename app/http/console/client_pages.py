"""Clients: those of all members, one of them; subscribers."""

from typing import Any

from app.http.api.call import Reply
from app.http.console.api_caller import ApiRefusal
from app.http.console.page import ConsolePage, page_route
from app.http.console.service_pages import SIZES, namespaces_of, page_of, pager, sort_of, to_own_namespace
from app.naming.model.keys import GROUP_SPLITTER

CLIENT = "/v2/ns/client"


@page_route("/console/clients")
def clients(page: ConsolePage) -> Reply:
    """List the clients of all members whose ids contain a text, page by page."""
    number, size = page_of(page)
    wanted, sort = page.text("id"), sort_of(page, "client")
    found = page.api.get("/v1/ns/operator/clients", clientId=wanted, pageNo=number, pageSize=size, **sort)
    return page.show(
        "clients.html",
        page.gettext("Clients"),
        nav="clients",
        wanted=wanted,
        sort=sort,
        clients=found["clients"],
        connected=found["connected"],
        silent=found["notAnswered"],
        other_kinds=found["otherKinds"],
        pager=pager(found["count"], number, size),
        sizes=SIZES,
    )


@page_route("/console/client")
def client(page: ConsolePage) -> Reply:
    """Show one client: its own description, its instances and its subscriptions, from the member it is connected to."""
    wanted = page.text("id")
    if not wanted:
        raise ApiRefusal(404, page.gettext("The address names no client."))
    told = page.api.get("/v1/ns/operator/client", clientId=wanted)
    connected = told["client"]
    if connected is None:
        client = page.api.get(CLIENT, clientId=wanted)
    else:
        client = {
            "clientId": wanted,
            "clientType": "connection",
            "clientIp": connected["ip"],
            "clientPort": connected["port"],
            "version": connected["agent"],
            "appName": connected["app"],
        }
    return page.show(
        "client.html",
        page.gettext("Client"),
        nav="clients",
        client=client,
        member=connected["member"] if connected else "",
        silent=told["notAnswered"],
        connection=told["connection"] or {},
        published=_named(page.api.find(f"{CLIENT}/publish/list", clientId=wanted) or []),
        subscribed=told["subscribed"],
    )


def _named(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries with the full name of their service."""
    return [{**one, "full_name": f"{one['group']}{GROUP_SPLITTER}{one['serviceName']}"} for one in listed]


@page_route("/console/subscribers")
def subscribers(page: ConsolePage) -> Reply:
    """List the subscribers at all members, of services whose name contains a text."""
    if elsewhere := to_own_namespace(page, "/console/subscribers"):
        return elsewhere
    number, size = page_of(page)
    filters = {"name": page.text("name"), "group": page.text("group")}
    sort = sort_of(page, "service")
    group, splitter, name = filters["name"].rpartition(GROUP_SPLITTER)
    found = page.api.get(
        "/v1/ns/service/subscribers/search",
        namespaceId=page.namespace,
        name=name,
        group=group if splitter else filters["group"],
        pageNo=number,
        pageSize=size,
        **sort,
    )
    return page.show(
        "subscribers.html",
        page.gettext("Subscribers"),
        nav="subscribers",
        namespaces=namespaces_of(page),
        filters=filters,
        sort=sort,
        subscribers=found["subscribers"],
        silent=found["notAnswered"],
        other_kinds=found["otherKinds"],
        pushes=page.api.find("/v1/ns/operator/push/state"),
        pager=pager(found["count"], number, size),
        sizes=SIZES,
    )
