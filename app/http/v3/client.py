"""Clients over HTTP v3: their ids, the instances that each publishes, the services that each is subscribed to.

The operations are those of v2, with the names that Nacos 3 gives to the fields.
"""

import re
from typing import Any

from app.auth.access_rules import READ, admin, naming
from app.http.api.call import Answer, Call, Services
from app.http.input.fields import FILLED, Needed
from app.http.input.schemas import CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.service_shapes import RESPONSIBLE
from app.http.shapes.user_shapes import CLIENT_IDS
from app.http.shapes.v3_shapes import V3_CLIENT, V3_CLIENT_SERVICES, V3_PUBLISHERS, V3_SUBSCRIBERS
from app.http.v2 import client as client_v2
from app.http.v2.client import (
    GRPC,
    ClientAddressSchema,
    ClientIdSchema,
    client_id_of,
    found_publications,
    found_publishers,
    found_subscribers,
    unknown_client,
)
from app.http.v2.envelope import require_present, result, result_route
from app.http.v3.forms import ADMIN
from app.naming.clients.client_model import ClientInfo
from app.naming.model.keys import group_of, short_name_of
from app.naming.model.model import Instance, Service

PATH = f"{ADMIN}/client"
_TIME = re.compile("[0-9]{1,15}")
"""The beginning of a connection's id: when it was made, in ms since 1970."""


class AddressSchema(CallSchema):
    """GET ``/v3/admin/ns/client/distro``."""

    ip = Needed("ip", "The address of the client.", needs=FILLED, example="10.0.0.1")
    port = Needed("port", "The port of the client.", needs=FILLED, example="8080")


@result_route("GET", f"{PATH}/list", access=admin(READ), described=Described(CLIENT_IDS))
def list_clients(call: Call, services: Services) -> Answer:
    """The ids of all clients, at this member and others."""
    return client_v2.list_clients(call, services)


@result_route("GET", PATH, access=admin(READ), described=Described(V3_CLIENT, takes=(ClientIdSchema,), refusals=(404,)))
def detail(call: Call, services: Services) -> Answer:
    """One client. The fields of a connection are null, and its port 0, for a client that is an address."""
    client_id = client_id_of(call)
    client = services.clients.table.client(client_id)
    if client is not None:
        info = client.info
        made_ms, _, _ = client_id.partition("_")
        changed = [one.at_ms for one in list(client.published.values())]
        return result(
            {
                "clientId": client_id,
                "ephemeral": True,
                "lastUpdatedTime": max(changed, default=int(made_ms) if _TIME.fullmatch(made_ms) else 0),
                "clientType": "connection",
                "connectType": GRPC,
                "appName": info.app,
                "version": info.agent,
                "clientIp": info.ip,
                "clientPort": info.port,
            }
        )
    changed = [_confirmed_ms(service, one, services) for service, one in _of_address(client_id, services)]
    return result(
        {
            "clientId": client_id,
            "ephemeral": client_id.endswith("#true"),
            "lastUpdatedTime": max(changed),
            "clientType": "ipPort",
            **dict.fromkeys(("connectType", "appName", "version", "clientIp")),
            "clientPort": 0,
        }
    )


def _of_address(client_id: str, services: Services) -> list[tuple[Service, Instance]]:
    """Return the instances of an address, each with its service.

    Raises:
        ResultError: there are none.
    """
    found = list(services.naming.instances_of_address(client_id))
    if not found:
        raise unknown_client(client_id)
    return found


def _confirmed_ms(service: Service, one: Instance, services: Services) -> int:
    """Return when an instance beat last, or a persistent one was changed, by the wall clock; 0 if it is unknown."""
    stored = service.stored.get(one.key)
    if stored is not None:
        return services.wall_ms() - services.naming.silent_ms(stored)
    return services.durable.set_at_ms(service.namespace, service.full_name, one.key) or 0


@result_route(
    "GET",
    f"{PATH}/publish/list",
    access=admin(READ),
    described=Described(V3_CLIENT_SERVICES, takes=(ClientIdSchema,), refusals=(404,)),
)
def published(call: Call, services: Services) -> Answer:
    """The instances of a client, each with its service."""
    found = found_publications(client_id_of(call), services)
    return result([{**_names(space, name), "publisherInfo": _place(None, one), "subscriberInfo": None}
                   for space, name, one in found])  # fmt: skip


@result_route(
    "GET",
    f"{PATH}/subscribe/list",
    access=admin(READ),
    described=Described(V3_CLIENT_SERVICES, takes=(ClientIdSchema,), refusals=(404,)),
)
def subscribed(call: Call, services: Services) -> Answer:
    """The services that a client connected here is subscribed to; the list is empty for a client that is an address."""
    client_id = client_id_of(call)
    client = services.clients.table.client(client_id)
    if client is None:
        _of_address(client_id, services)
        return result([])
    told = _subscriber(None, client.info)
    return result([{**_names(*key), "publisherInfo": None, "subscriberInfo": told} for key in list(client.subscribed)])


@result_route(
    "GET",
    f"{PATH}/service/publisher/list",
    access=naming(READ),
    described=Described(V3_PUBLISHERS, takes=(NeededServiceSchema, ClientAddressSchema)),
)
def publishers(call: Call, services: Services) -> Answer:
    """The publishers of a service, or those of one address, each with its instance."""
    return result([_place(client_id, one) for client_id, one in found_publishers(call, services)])


@result_route(
    "GET",
    f"{PATH}/service/subscriber/list",
    access=naming(READ),
    described=Described(V3_SUBSCRIBERS, takes=(NeededServiceSchema, ClientAddressSchema)),
)
def subscribers(call: Call, services: Services) -> Answer:
    """The subscribers of a service that are connected here, or those of one address."""
    return result([_subscriber(one.client_id, one) for one in found_subscribers(call, services)])


@result_route("GET", f"{PATH}/distro", access=admin(READ), described=Described(RESPONSIBLE, takes=(AddressSchema,)))
def responsible_server(call: Call, services: Services) -> Answer:
    """The member that real Nacos would take for responsible for an address. Shape of data: responsibleServer.

    Rollcall's members are responsible for services, and not for addresses.
    """
    require_present(call, AddressSchema)
    asked = load_parameters(AddressSchema, call.parameters)
    return result({"responsibleServer": services.cluster.map_srv(f"{asked['ip']}:{asked['port']}")})


def _names(namespace: str, full_name: str) -> dict[str, str]:
    return {"namespaceId": namespace, "groupName": group_of(full_name), "serviceName": short_name_of(full_name)}


def _place(client_id: str | None, one: Instance) -> dict[str, Any]:
    return {"clientId": client_id, "ip": one.ip, "port": one.port, "clusterName": one.cluster_name}


def _subscriber(client_id: str | None, info: ClientInfo) -> dict[str, Any]:
    return {"clientId": client_id, "appName": info.app, "agent": info.agent, "address": info.ip}
