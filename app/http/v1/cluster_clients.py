"""The clients of the whole cluster: connections and subscribers are known to the member that they are connected to."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from app.auth.access_rules import READ, Target, admin, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.fields import FILLED, Needed, Trimmed
from app.http.input.schemas import (
    DESCENDING,
    PAGE_NO,
    LocalSchema,
    NamespaceSchema,
    NeededServiceSchema,
    load_parameters,
    order_by,
    page_size,
)
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import CLIENTS_OF_CLUSTER, CONNECTED_CLIENT, SUBSCRIBERS_OF_CLUSTER
from app.http.v1.search import ip_key
from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.nacos_errors import InvalidParam
from app.naming.push.udp_subscribers import Subscriber
from app.naming.registry.http_publishers import AddressClients
from app.peers.asked import ask_all
from distro.timing.sliced import in_order

CLIENTS, CLIENT = "/v1/ns/operator/clients", "/v1/ns/operator/client"
SUBSCRIBERS, SEARCH = "/v1/ns/service/subscribers/all", "/v1/ns/service/subscribers/search"
ASK_S = 1.0
"""All members that are not DOWN are asked at once, and have so long to answer."""
PAGE_SIZE, PAGE_MAX = 100, 1_000
LISTED_MAX = 10_000
"""The last connection that a page can reach: each member sends all up to there."""
SUBSCRIBERS_MAX = 1_000
"""The most subscribers that a member lists; it counts all."""
GRPC, UDP = "gRPC", "UDP"
Row = dict[str, Any]
_ROW = frozenset(("clientId", "ip", "port", "app", "agent", "member"))
"""The fields of a client or subscriber that another member reports."""


Key = Callable[[Row], Any]


def _address(row: Row) -> Any:
    return ip_key(str(row["ip"])), row["port"]


CLIENT_ORDERS: dict[str, Key] = {
    "client": lambda row: str(row["clientId"]),
    "kind": lambda _: "",  # by it only connections and addresses differ
    "address": _address,
    "sdk": lambda row: str(row["agent"]).lower(),
    "application": lambda row: str(row["app"]).lower(),
    "member": lambda row: str(row["member"]),
}
SUBSCRIBER_ORDERS: dict[str, Key] = {
    "service": lambda row: str(row.get("serviceName")),
    "over": lambda row: str(row.get("over")).lower(),
    **{name: key for name, key in CLIENT_ORDERS.items() if name not in ("client", "kind")},
}


class ClusterClientsSchema(LocalSchema):
    contained = Trimmed("clientId", "A part of the wanted ids.", "")
    order, descending = order_by(CLIENT_ORDERS, "client"), DESCENDING
    page, size = PAGE_NO, page_size(PAGE_SIZE, PAGE_MAX)


class SubscriberSearchSchema(NamespaceSchema, LocalSchema):
    name = Trimmed("name", "A part of the wanted services' names.", "")
    group = Trimmed("group", "A part of the wanted groups.", "")
    order, descending = order_by(SUBSCRIBER_ORDERS, "service"), DESCENDING
    page, size = PAGE_NO, page_size(PAGE_SIZE, PAGE_MAX)


class ConnectedClientSchema(LocalSchema):
    client_id = Needed("clientId", "The id of the client.", needs=FILLED)


@route(
    "GET",
    CLIENTS,
    access=admin(READ).or_members(),
    described=Described(CLIENTS_OF_CLUSTER, takes=(ClusterClientsSchema,)),
)
def clients(call: Call, services: Services) -> Answer:
    """Return a page of all clients whose ids contain a text: connections at all members first, then addresses.

    By ``kind`` with ``descending`` the addresses come first. With ``local=true`` the connections of this member alone.
    """
    asked = load_parameters(ClusterClientsSchema, call.parameters)
    contained, end = asked["contained"], asked["page"] * asked["size"]
    sorted_rows = _sorter(CLIENT_ORDERS[asked["order"]], CLIENT_ORDERS["client"], descending=asked["descending"])
    here = _connected_here(services, contained, sorted_rows, min(end, LISTED_MAX))
    if asked["local"]:
        return json_reply(here)
    parameters = {"clientId": contained, **_page_of(asked)}
    answers, silent, other_kinds = _listings(services, CLIENTS, parameters, here, "clients")
    rows = {row["clientId"]: row for answer in answers for row in _rows(answer["clients"])}
    count = sum(answer["count"] for answer in answers)
    for row in _copies_of(services, contained, {*silent, *other_kinds}):
        count += row["clientId"] not in rows
        rows.setdefault(row["clientId"], row)
    first = end - asked["size"]
    if first < count and end > LISTED_MAX:
        text = f"Parameter 'pageNo' is illegal: pages reach the first {LISTED_MAX} connections; name a part of the id"
        raise InvalidParam(text)
    addresses = services.naming.address_clients(contained)
    is_last_first = asked["order"] == "kind" and asked["descending"]
    before = len(addresses) if is_last_first else 0
    connected = sorted_rows(rows.values())[max(first - before, 0) : max(end - before, 0)]
    others = _addresses(addresses, first - (0 if is_last_first else count), asked)
    page = [*others, *connected] if is_last_first else [*connected, *others]
    return json_reply(
        {
            "count": count + len(addresses),
            "connected": sum(answer["connected"] for answer in answers),
            "clients": page,
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def _addresses(addresses: AddressClients, first: int, asked: Mapping[str, Any]) -> list[Row]:
    """Return the addresses of a page, of which they are the entries from ``first`` on; below 0 others come before."""
    begin, end = max(first, 0), max(first + asked["size"], 0)
    is_reversed = asked["order"] == "client" and asked["descending"]
    if is_reversed:
        begin, end = max(len(addresses) - end, 0), max(len(addresses) - begin, 0)
    keys = in_order(addresses.found, begin, end)
    if is_reversed:
        keys.reverse()
    return [{"clientId": one, "member": ""} for one in addresses.ids_of(keys)]


def _sorter(key: Key, then: Key, *, descending: bool) -> Callable[[Iterable[Row]], list[Row]]:
    """Return what puts rows in the order of a column; equal ones stay in the usual order."""
    return lambda rows: sorted(sorted(rows, key=then), key=key, reverse=descending)


def _page_of(asked: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the parameters that ask a member for the same page in the same order."""
    order = {"orderBy": asked["order"], "descending": str(asked["descending"]).lower()}
    return {"pageNo": asked["page"], "pageSize": asked["size"], **order}


def _connected_here(
    services: Services, contained: str, sorted_rows: Callable[[Iterable[Row]], list[Row]], end: int
) -> Row:
    """Return the connections of this member: the first ``end`` in an order, and how many there are."""
    own = services.cluster.self_address
    all_here = [one.info for one in services.clients.table.all() if one.native and not one.ended]
    matching = sorted_rows(_row(one, own) for one in all_here if contained in one.client_id)
    return {
        "member": own,
        "count": len(matching),
        "connected": len(all_here),
        "clients": matching[:end],
    }


def _copies_of(services: Services, contained: str, members: set[str]) -> Iterable[Row]:
    """Yield the clients of members that did not answer, as far as this member has copies."""
    if not members:
        return
    for one in services.clients.table.all():
        member = one.version.writer.partition("~")[0]
        if not one.native and contained in one.info.client_id and (member in members or not member):
            yield _row(one.info, member)


def _row(info: ClientInfo, member: str) -> Row:
    return {
        "clientId": info.client_id,
        "ip": info.ip,
        "port": info.port,
        "app": info.app,
        "agent": info.agent,
        "member": member,
    }


@route(
    "GET",
    CLIENT,
    access=admin(READ).or_members(),
    described=Described(CONNECTED_CLIENT, takes=(ConnectedClientSchema,)),
)
def client(call: Call, services: Services) -> Answer:
    """Return a connection and its subscriptions, from the member that it is connected to; ``client`` null for none."""
    asked = load_parameters(ConnectedClientSchema, call.parameters)
    here = _client_here(services, asked["client_id"])
    if asked["local"] or here["client"] is not None:
        return json_reply(here | {"notAnswered": []})
    parameters = {"clientId": asked["client_id"]}
    told_by, unanswered, _ = ask_all(services, CLIENT, parameters, here, lambda one: "client" in one, ASK_S)
    silent = _silent(services, unanswered)
    for answer in told_by.values():
        if isinstance(answer.get("client"), dict) and answer["client"].keys() >= _ROW:
            told = {name: answer.get(name) for name in here}
            return json_reply(told | {"notAnswered": silent})
    return json_reply(here | {"notAnswered": silent})


def _client_here(services: Services, client_id: str) -> Row:
    found = services.clients.table.client(client_id)
    if found is None or not found.native or found.ended:
        return {"client": None, "connection": None, "subscribed": []}
    current = services.loader.current({client_id}) if services.loader is not None else {}
    return {
        "client": _row(found.info, services.cluster.self_address),
        "connection": current.get(client_id, {}).get("metaInfo"),
        "subscribed": [{"namespaceId": space, "serviceName": name} for space, name in sorted(found.subscribed)],
    }


@route(
    "GET",
    SUBSCRIBERS,
    access=naming(READ).or_members(),
    described=Described(SUBSCRIBERS_OF_CLUSTER, takes=(NeededServiceSchema, LocalSchema)),
)
def subscribers(call: Call, services: Services) -> Answer:
    """Return the subscribers of a service at all members, over gRPC and UDP; with ``local=true`` at this one alone."""
    values = load_parameters(NeededServiceSchema, call.parameters)
    namespace, service = values["namespace"], values["service"]
    here = _subscribers_here(services, namespace, service)
    if load_parameters(LocalSchema, call.parameters)["local"]:
        return json_reply(here)
    parameters = {"namespaceId": namespace, "serviceName": service}
    answers, silent, other_kinds = _listings(services, SUBSCRIBERS, parameters, here, "subscribers")
    rows = [row for answer in answers for row in _rows(answer["subscribers"])]
    return json_reply(
        {
            "count": sum(answer["count"] for answer in answers),
            "subscribers": sorted(rows, key=lambda one: (one.get("over") or "", one["ip"], one["port"])),
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def _subscribers_here(services: Services, namespace: str, service: str) -> Row:
    rows = [*_over_grpc(services, namespace, service)]
    rows += [_over_udp(services, one) for one in services.push.subscribers(namespace) if one.service == service]
    return {"count": len(rows), "subscribers": rows[:SUBSCRIBERS_MAX]}


def _over_grpc(services: Services, namespace: str, service: str) -> Iterable[Row]:
    for client_id, _ in services.clients.subscriptions.subscribers(namespace, service):
        if (one := services.clients.table.client(client_id)) is not None:
            yield _row(one.info, services.cluster.self_address) | {"over": GRPC, "serviceName": service}


def _over_udp(services: Services, one: Subscriber) -> Row:
    info = ClientInfo("", one.ip, one.port, one.app, one.agent)
    return _row(info, services.cluster.self_address) | {"over": UDP, "serviceName": one.service}


@route(
    "GET",
    SEARCH,
    access=naming(READ, Target.NAMESPACE).or_members(),
    described=Described(SUBSCRIBERS_OF_CLUSTER, takes=(SubscriberSearchSchema,)),
)
def search_subscribers(call: Call, services: Services) -> Answer:
    """Return a page of the subscribers at all members, of services whose name and group contain these texts.

    With ``local=true`` those at this member alone.
    """
    asked = load_parameters(SubscriberSearchSchema, call.parameters)
    end = asked["page"] * asked["size"]
    if end > LISTED_MAX:
        text = (
            f"Parameter 'pageNo' is illegal: pages reach the first {LISTED_MAX} subscribers; name a part of the service"
        )
        raise InvalidParam(text)
    sorted_rows = _sorter(SUBSCRIBER_ORDERS[asked["order"]], _order, descending=asked["descending"])
    here = _matching_here(services, asked, sorted_rows, end)
    if asked["local"]:
        return json_reply(here)
    names = {"namespaceId": asked["namespace"], "name": asked["name"], "group": asked["group"]}
    answers, silent, other_kinds = _listings(services, SEARCH, names | _page_of(asked), here, "subscribers")
    rows = sorted_rows(row for answer in answers for row in _rows(answer["subscribers"]))
    return json_reply(
        {
            "count": sum(answer["count"] for answer in answers),
            "subscribers": rows[end - asked["size"] : end],
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def _matching_here(
    services: Services, asked: Mapping[str, Any], sorted_rows: Callable[[Iterable[Row]], list[Row]], end: int
) -> Row:
    namespace = asked["namespace"]

    def is_named(service: str) -> bool:
        return asked["name"] in short_name_of(service) and asked["group"] in group_of(service)

    rows = [_over_udp(services, one) for one in services.push.subscribers(namespace) if is_named(one.service)]
    for service in filter(is_named, services.clients.subscriptions.services(namespace)):
        rows.extend(_over_grpc(services, namespace, service))
    return {"count": len(rows), "subscribers": sorted_rows(rows)[:end]}


def _order(row: Row) -> tuple[str, str, int]:
    return str(row.get("serviceName")), str(row["ip"]), row["port"]


def _listings(
    services: Services, path: str, parameters: Mapping[str, str | int], here: Row, name: str
) -> tuple[list[Row], list[str], list[str]]:
    """Return all members' lists of this ``name``, the members with a missing list, and those that are not Rollcall."""
    told, silent, other_kinds = ask_all(services, path, parameters, here, lambda one: _is_listing(one, name), ASK_S)
    return list(told.values()), _silent(services, silent), other_kinds


def _silent(services: Services, addresses: list[str]) -> list[str]:
    """Return the members whose answer is missing, without those that are out by plan."""
    planned = {one.address for one in services.cluster.members() if services.cluster.planned(one)}
    return [one for one in addresses if one not in planned]


def _is_listing(answer: Row, name: str) -> bool:
    """Return whether a member's answer has a list, and its counts."""
    if not isinstance(answer.get(name), list):
        return False
    counts = (answer.get("count"), answer.get("connected", 0))
    return all(type(one) is int and one >= 0 for one in counts)


def _rows(listed: list[Any]) -> list[Row]:
    """Return the entries that are whole."""
    return [one for one in listed if isinstance(one, dict) and one.keys() >= _ROW and type(one["port"]) is int]
