"""The clients of the whole cluster: connections and subscribers are known to the member that they are connected to."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from app.auth.access_rules import READ, Target, admin, naming
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.input.fields import FILLED, Needed, Trimmed
from app.http.input.schemas import (
    PAGE_NO,
    LocalSchema,
    NamespaceSchema,
    NeededServiceSchema,
    load_parameters,
    page_size,
)
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import CLIENTS_OF_CLUSTER, CONNECTED_CLIENT, SUBSCRIBERS_OF_CLUSTER
from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.nacos_errors import InvalidParam
from app.naming.push.udp_subscribers import Subscriber
from app.peers.asked import ask_members
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


class ClusterClientsSchema(LocalSchema):
    contained = Trimmed("clientId", "A part of the wanted ids.", "")
    page, size = PAGE_NO, page_size(PAGE_SIZE, PAGE_MAX)


class SubscriberSearchSchema(NamespaceSchema, LocalSchema):
    name = Trimmed("name", "A part of the wanted services' names.", "")
    group = Trimmed("group", "A part of the wanted groups.", "")
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

    With ``local=true`` the connections of this member alone.
    """
    asked = load_parameters(ClusterClientsSchema, call.parameters)
    contained, end = asked["contained"], asked["page"] * asked["size"]
    here = _connected_here(services, contained, min(end, LISTED_MAX))
    if asked["local"]:
        return json_reply(here)
    parameters = {"clientId": contained, "pageNo": asked["page"], "pageSize": asked["size"], "local": "true"}
    found, other_kinds = ask_members(services, "GET", CLIENTS, parameters, ASK_S, down_too=False)
    answers = [here, *(one for one in found.values() if _is_listing(one, "clients"))]
    rows = {row["clientId"]: row for answer in answers for row in _rows(answer["clients"])}
    silent = _silent(services, {address for address, one in found.items() if not _is_listing(one, "clients")})
    count = sum(answer["count"] for answer in answers)
    for row in _copies_of(services, contained, {*silent, *other_kinds}):
        count += row["clientId"] not in rows
        rows.setdefault(row["clientId"], row)
    first = end - asked["size"]
    if first < count and end > LISTED_MAX:
        text = f"Parameter 'pageNo' is illegal: pages reach the first {LISTED_MAX} connections; name a part of the id"
        raise InvalidParam(text)
    page = sorted(rows.values(), key=lambda one: str(one["clientId"]))[first:end]
    addresses = services.naming.address_clients(contained)
    page += [{"clientId": one, "member": ""} for one in in_order(addresses, max(first - count, 0), max(end - count, 0))]
    return json_reply(
        {
            "count": count + len(addresses),
            "connected": sum(answer["connected"] for answer in answers),
            "clients": page,
            "notAnswered": silent,
            "otherKinds": other_kinds,
        }
    )


def _connected_here(services: Services, contained: str, end: int) -> Row:
    """Return the connections of this member: the first ``end`` by id, and how many there are."""
    all_here = [one.info for one in services.clients.table.all() if one.native and not one.ended]
    matching = sorted((one for one in all_here if contained in one.client_id), key=lambda one: one.client_id)
    own = services.cluster.self_address
    return {
        "member": own,
        "count": len(matching),
        "connected": len(all_here),
        "clients": [_row(one, own) for one in matching[:end]],
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
    parameters = {"clientId": asked["client_id"], "local": "true"}
    found, _ = ask_members(services, "GET", CLIENT, parameters, ASK_S, down_too=False)
    silent = _silent(services, {address for address, one in found.items() if one is None or "client" not in one})
    for answer in found.values():
        if answer is not None and isinstance(answer.get("client"), dict) and answer["client"].keys() >= _ROW:
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
    parameters = {"namespaceId": namespace, "serviceName": service, "local": "true"}
    found, other_kinds = ask_members(services, "GET", SUBSCRIBERS, parameters, ASK_S, down_too=False)
    answers = [here, *(one for one in found.values() if _is_listing(one, "subscribers"))]
    rows = [row for answer in answers for row in _rows(answer["subscribers"])]
    return json_reply(
        {
            "count": sum(answer["count"] for answer in answers),
            "subscribers": sorted(rows, key=lambda one: (one.get("over") or "", one["ip"], one["port"])),
            "notAnswered": _silent(
                services, {address for address, one in found.items() if not _is_listing(one, "subscribers")}
            ),
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
    here = _matching_here(services, asked, end)
    if asked["local"]:
        return json_reply(here)
    names = {"namespaceId": asked["namespace"], "name": asked["name"], "group": asked["group"]}
    pages = {"pageNo": asked["page"], "pageSize": asked["size"], "local": "true"}
    found, other_kinds = ask_members(services, "GET", SEARCH, names | pages, ASK_S, down_too=False)
    answers = [here, *(one for one in found.values() if _is_listing(one, "subscribers"))]
    rows = sorted((row for answer in answers for row in _rows(answer["subscribers"])), key=_order)
    return json_reply(
        {
            "count": sum(answer["count"] for answer in answers),
            "subscribers": rows[end - asked["size"] : end],
            "notAnswered": _silent(
                services, {address for address, one in found.items() if not _is_listing(one, "subscribers")}
            ),
            "otherKinds": other_kinds,
        }
    )


def _matching_here(services: Services, asked: Mapping[str, Any], end: int) -> Row:
    namespace = asked["namespace"]

    def is_named(service: str) -> bool:
        return asked["name"] in short_name_of(service) and asked["group"] in group_of(service)

    rows = [_over_udp(services, one) for one in services.push.subscribers(namespace) if is_named(one.service)]
    for service in filter(is_named, services.clients.subscriptions.services(namespace)):
        rows.extend(_over_grpc(services, namespace, service))
    rows.sort(key=_order)
    return {"count": len(rows), "subscribers": rows[:end]}


def _order(row: Row) -> tuple[str, str, int]:
    return str(row.get("serviceName")), str(row["ip"]), row["port"]


def _silent(services: Services, addresses: set[str]) -> list[str]:
    """Return the members whose answer is missing, without those that are out by plan."""
    planned = {one.address for one in services.cluster.members() if services.cluster.planned(one)}
    return sorted(addresses - planned)


def _is_listing(answer: Row | None, name: str) -> TypeGuard[Row]:
    """Return whether a member's answer has a list, and its counts."""
    if answer is None or not isinstance(answer.get(name), list):
        return False
    counts = (answer.get("count"), answer.get("connected", 0))
    return all(type(one) is int and one >= 0 for one in counts)


def _rows(listed: list[Any]) -> list[Row]:
    """Return the entries that are whole."""
    return [one for one in listed if isinstance(one, dict) and one.keys() >= _ROW and type(one["port"]) is int]
