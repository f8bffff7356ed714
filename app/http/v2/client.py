"""Clients over HTTP v2: their ids, the instances that each publishes, the services that each is subscribed to.

A client over gRPC is a connection; one over HTTP is an address, ``ip:port#true``, or ``#false`` where its instance is
persistent, as in Nacos 2. Subscribers over UDP are under ``/v1/ns/service/subscribers``.
"""

from collections.abc import Mapping
from typing import Any

from app.auth.access_rules import READ, admin, naming
from app.http.api.call import Answer, Call, Services
from app.http.input.fields import PRESENT, Trimmed
from app.http.input.params import check_numbers
from app.http.input.schemas import PAGE_NO, CallSchema, NeededServiceSchema, load_parameters, page_size
from app.http.shapes.described import Described
from app.http.shapes.user_shapes import (
    CLIENT,
    CLIENT_IDS,
    CLIENTS_FOUND,
    CLIENTS_OF_SERVICE,
    PUBLISHED,
    SUBSCRIBED,
)
from app.http.v2.envelope import (
    FORM_TEXT,
    QUERY_TEXT,
    ResultCode,
    ResultError,
    called_service,
    require_present,
    result,
    result_route,
)
from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance
from app.naming.registry.http_publishers import address_client_id
from distro.timing.sliced import in_order

PATH = "/v2/ns/client"
GRPC = "GRPC"
CLIENT_ID = "clientId"
CLIENT_ID_TEXT = "The id of a client; of a search a part of ids."
CLIENTS_PAGE_SIZE, CLIENTS_PAGE_SIZE_MAX = 100, 1_000


class ClientIdSchema(CallSchema):
    """Calls about one client."""

    client_id = Trimmed(CLIENT_ID, CLIENT_ID_TEXT, needs=PRESENT)


class ClientAddressSchema(CallSchema):
    """Lists of a service's clients: those of one address alone."""

    ip = Trimmed("ip", "The address of the wanted client or instance; any without it.", "", example="10.0.0.1")
    port = Trimmed("port", "The port of the wanted client or instance; any without it.", "")


class ClientSearchSchema(CallSchema):
    contained = Trimmed("clientId", CLIENT_ID_TEXT, "")
    page, size = PAGE_NO, page_size(CLIENTS_PAGE_SIZE, CLIENTS_PAGE_SIZE_MAX)


@result_route("GET", f"{PATH}/list", access=admin(READ), described=Described(CLIENT_IDS))
def list_clients(call: Call, services: Services) -> Answer:
    """The ids of all clients, at this member and others."""
    addresses = services.naming.address_clients()
    return result([*services.clients.table.ids(), *addresses.ids_of(in_order(addresses.found))])


@result_route(
    "GET",
    f"{PATH}/search",
    access=admin(READ),
    described=Described(CLIENTS_FOUND, takes=(ClientSearchSchema,)),
)
def search(call: Call, services: Services) -> Answer:
    """A page of the clients whose ids contain a text, connections first.

    Shape of data: ``count`` of all that were found, ``connected`` here for any search, ``clientIds``. Nacos has no such
    call.
    """
    asked = load_parameters(ClientSearchSchema, call.parameters)
    first = (asked["page"] - 1) * asked["size"]
    end = first + asked["size"]
    connections = [one for one in services.clients.table.ids() if asked["contained"] in one]
    addresses = services.naming.address_clients(asked["contained"])
    found = connections[first:end]
    span = max(first - len(connections), 0), max(end - len(connections), 0)
    found += addresses.ids_of(in_order(addresses.found, *span))
    return result(
        {
            "count": len(connections) + len(addresses),
            "connected": services.clients.table.counts().native,
            "clientIds": found,
        }
    )


@result_route("GET", PATH, access=admin(READ), described=Described(CLIENT, takes=(ClientIdSchema,), refusals=(404,)))
def detail(call: Call, services: Services) -> Answer:
    """One client. Shape of data: clientId, ephemeral, clientType, address; of a connection also version and app."""
    client_id = client_id_of(call)
    if (client := services.clients.table.client(client_id)) is not None:
        info = client.info
        return result(
            {
                "clientId": client_id,
                "ephemeral": True,
                "clientType": "connection",
                "isNative": client.native,
                "connectType": GRPC,
                "appName": info.app,
                "version": info.agent,
                "clientIp": info.ip,
                "clientPort": str(info.port),
            }
        )
    if not any(True for _ in services.naming.instances_of_address(client_id)):
        raise unknown_client(client_id)
    ip, _, port = client_id.rpartition("#")[0].rpartition(":")
    kind = {"ephemeral": client_id.endswith("#true"), "clientType": "ipPort"}
    return result({"clientId": client_id, **kind, "clientIp": ip, "clientPort": port})


@result_route(
    "GET",
    f"{PATH}/publish/list",
    access=admin(READ),
    described=Described(PUBLISHED, takes=(ClientIdSchema,), refusals=(404,)),
)
def published(call: Call, services: Services) -> Answer:
    """The instances of a client. Shape of data: namespace, group, serviceName, registeredInstance."""
    found = found_publications(client_id_of(call), services)
    return result([{**_names(space, name), "registeredInstance": _place(one)} for space, name, one in found])


def found_publications(client_id: str, services: Services) -> list[tuple[str, str, Instance]]:
    """Return the instances of a client, each with its namespace and the full name of its service.

    Raises:
        ResultError: there is no such client.
    """
    client = services.clients.table.client(client_id)
    if client is not None:
        found = [
            (*key, one) for key, publication in list(client.published.items()) for one in publication.instances.values()
        ]
    else:
        found = [
            (service.namespace, service.full_name, one)
            for service, one in services.naming.instances_of_address(client_id)
        ]
        if not found:
            raise unknown_client(client_id)
    return found


@result_route(
    "GET",
    f"{PATH}/subscribe/list",
    access=admin(READ),
    described=Described(SUBSCRIBED, takes=(ClientIdSchema,), refusals=(404,)),
)
def subscribed(call: Call, services: Services) -> Answer:
    """The subscriptions of a client connected here. Shape of data: namespace, group, serviceName, subscriberInfo."""
    client_id = client_id_of(call)
    client = services.clients.table.client(client_id)
    if client is None:
        raise unknown_client(client_id)
    subscriber = {"app": client.info.app, "agent": client.info.agent, "addr": client.info.ip}
    return result([{**_names(*key), "subscriberInfo": subscriber} for key in list(client.subscribed)])


@result_route(
    "GET",
    f"{PATH}/service/publisher/list",
    access=naming(READ),
    described=Described(CLIENTS_OF_SERVICE, takes=(NeededServiceSchema, ClientAddressSchema)),
)
def publishers(call: Call, services: Services) -> Answer:
    """The publishers of a service, or those of one address. Shape of data: clientId, ip, port of each instance."""
    found = found_publishers(call, services, QUERY_TEXT)
    return result([{"clientId": client_id, "ip": one.ip, "port": one.port} for client_id, one in found])


def found_publishers(call: Call, services: Services, text: str = FORM_TEXT) -> list[tuple[str, Instance]]:
    """Return the publishers of the service that a call names, or those of one address, each with its instance.

    ``text``: the refusal of a call that names no service.
    """
    namespace, name = called_service(call, services, text=text)
    check_numbers(call.parameters)
    wanted = load_parameters(ClientAddressSchema, call.parameters)
    snapshot = services.naming.snapshot(namespace, name)
    found: list[tuple[str, Instance]] = []
    if snapshot is not None:
        over_http = [*(stored.instance for stored in snapshot.stored.values()), *snapshot.persistent.values()]
        found = [(address_client_id(one.ip, one.port, ephemeral=one.ephemeral), one) for one in over_http]
        found += [
            (client_id, one)
            for client_id, publication in snapshot.published.items()
            for one in publication.instances.values()
        ]
    return [(client_id, one) for client_id, one in found if _is_asked_for(wanted, one.ip, one.port)]


@result_route(
    "GET",
    f"{PATH}/service/subscriber/list",
    access=naming(READ),
    described=Described(CLIENTS_OF_SERVICE, takes=(NeededServiceSchema, ClientAddressSchema)),
)
def subscribers(call: Call, services: Services) -> Answer:
    """The subscribers of a service that are connected here. Shape of data: clientId, ip, port."""
    found = found_subscribers(call, services, QUERY_TEXT)
    return result([{"clientId": one.client_id, "ip": one.ip, "port": one.port} for one in found])


def found_subscribers(call: Call, services: Services, text: str = FORM_TEXT) -> list[ClientInfo]:
    """Return the clients connected here that subscribe to the service of a call, or those of one address.

    Port 0, which lists of subscribers show for each of them, matches any port, as in Nacos.
    ``text``: the refusal of a call that names no service.
    """
    names = called_service(call, services, text=text)
    wanted = load_parameters(ClientAddressSchema, call.parameters)
    found = [
        services.clients.table.client(client_id) for client_id, _ in services.clients.subscriptions.subscribers(*names)
    ]
    infos = [one.info for one in found if one is not None]
    return [one for one in infos if _is_asked_for(wanted, one.ip, one.port) or _is_asked_for(wanted, one.ip, 0)]


def client_id_of(call: Call) -> str:
    """Return the id of the client that a call names, which may be empty.

    Raises:
        ResultError: the call names none.
    """
    require_present(call, ClientIdSchema)
    return call.parameters.optional(CLIENT_ID)


def unknown_client(client_id: str) -> ResultError:
    """Return the refusal of a call about an unknown client."""
    return ResultError(404, ResultCode.NOT_FOUND, f"clientId [ {client_id} ] not exist")


def _is_asked_for(wanted: Mapping[str, str], ip: str, port: int) -> bool:
    """Return whether an address matches ``ip`` and ``port`` of a call; an absent parameter matches any address."""
    return wanted["ip"] in ("", ip) and wanted["port"] in ("", str(port))


def _names(namespace: str, full_name: str) -> dict[str, str]:
    return {"namespace": namespace, "group": group_of(full_name), "serviceName": short_name_of(full_name)}


def _place(one: Instance) -> dict[str, Any]:
    return {"ip": one.ip, "port": one.port, "cluster": one.cluster_name}
