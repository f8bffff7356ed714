"""The subscribers of a service over HTTP v3, over gRPC and UDP, at this member or at all."""

from typing import Any

from app.auth.access_rules import READ, naming
from app.http.api.call import Answer, Call, Services
from app.http.api.pages import PAGE_V2_MAX
from app.http.input.fields import StrictFlag
from app.http.input.schemas import CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.v3_shapes import V3_SUBSCRIBER_PAGE
from app.http.v2.envelope import called_service, result_route
from app.http.v3.forms import ADMIN, CONSOLE, PageSchema, page_result, part_of
from app.naming.model.keys import group_of, short_name_of
from app.peers.asked import ask_members

PATHS = f"{ADMIN}/service/subscribers", f"{CONSOLE}/service/subscribers"
ASK_MS_MAX = 2_000
"""The time for asking all other members."""
ASKED_MAX, PAGES_MAX = PAGE_V2_MAX, 20
"""How many subscribers a member is asked for at once, and how often."""
_TEXTS = ("namespaceId", "groupName", "serviceName", "ip", "agent", "appName")
Shown = dict[str, Any]


class AggregationSchema(CallSchema):
    aggregation = StrictFlag("aggregation", "Whether all other members are asked, too.", True)


@result_route(
    "GET",
    *PATHS,
    access=naming(READ).or_members(),
    at_root=PATHS[1:],
    described=Described(V3_SUBSCRIBER_PAGE, takes=(NeededServiceSchema, PageSchema, AggregationSchema)),
)
def list_subscribers(call: Call, services: Services) -> Answer:
    """A page of the subscribers of a service, at all members. The port of one over gRPC is 0.

    Of several subscribers with the same address, application and agent one is listed, as in Nacos 3.
    """
    namespace, full_name = called_service(call, services)
    asked = load_parameters(PageSchema, call.parameters)
    found = _subscribers_here(services, namespace, full_name)
    if load_parameters(AggregationSchema, call.parameters)["aggregation"]:
        found += _subscribers_elsewhere(services, namespace, full_name)
        found = list({tuple(one.values()): one for one in found}.values())
    found.sort(key=lambda one: (one["ip"], one["port"], one["agent"], one["appName"]))
    return page_result(len(found), asked, part_of(found, asked))


def _subscribers_here(services: Services, namespace: str, full_name: str) -> list[Shown]:
    found = [
        _shown(namespace, full_name, one.ip, one.port, one.agent, one.app)
        for one in services.push.subscribers(namespace)
        if one.service == full_name
    ]
    for client_id, _ in services.clients.subscriptions.subscribers(namespace, full_name):
        client = services.clients.table.client(client_id)
        if client is not None:
            info = client.info
            found.append(_shown(namespace, full_name, info.ip, 0, info.agent, info.app))
    return found


def _subscribers_elsewhere(services: Services, namespace: str, full_name: str) -> list[Shown]:
    """Return the subscribers at the other Rollcall members, ``PAGES_MAX`` pages of each at most.

    A member that does not answer in time is left out.
    """
    asked: dict[str, str | int] = {
        "namespaceId": namespace,
        "groupName": group_of(full_name),
        "serviceName": short_name_of(full_name),
        "aggregation": "false",
        "pageSize": ASKED_MAX,
    }
    deadline_ms = services.monotonic_ms() + ASK_MS_MAX
    found: list[Shown] = []
    for page in range(1, PAGES_MAX + 1):
        if (left_ms := deadline_ms - services.monotonic_ms()) <= 0:
            break
        answers, _ = ask_members(services, "GET", PATHS[0], {**asked, "pageNo": page}, left_ms / 1_000, down_too=False)
        parts = [_items_of(answer) for answer in answers.values()]
        found += [
            _shown(namespace, full_name, one["ip"], one["port"], one["agent"], one["appName"])
            for part in parts
            for one in part
            if _is_subscriber(one)
        ]
        if all(len(part) < ASKED_MAX for part in parts):
            break
    return found


def _items_of(answer: dict[str, Any] | None) -> list[Any]:
    """Return the entries in a member's answer; empty for an answer that is not a page."""
    data = (answer or {}).get("data")
    items = data.get("pageItems") if isinstance(data, dict) else None
    return items if isinstance(items, list) else []


def _is_subscriber(fields: object) -> bool:
    if not isinstance(fields, dict) or type(fields.get("port")) is not int:
        return False
    return all(isinstance(fields.get(name), str) for name in _TEXTS)


def _shown(namespace: str, full_name: str, ip: str, port: int, agent: str, app: str) -> Shown:
    return {
        "namespaceId": namespace,
        "groupName": group_of(full_name),
        "serviceName": short_name_of(full_name),
        "ip": ip,
        "port": port,
        "agent": agent,
        "appName": app,
        "address": f"{ip}:{port}",
    }
