"""Subscribers over UDP: list queries that subscribe, the subscribers of a service, counts of pushes."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any

from app.auth.access_rules import READ, WRITE, Target, admin, naming
from app.config.addresses import is_loopback, is_this_machine
from app.http.api.agents import AGENT_CHARS_MAX, Agent, ClientType, may_be_pushed
from app.http.api.answers import json_reply
from app.http.api.call import Answer, Call, Services, route
from app.http.api.pages import page_size
from app.http.api.rights import READS, check_access
from app.http.input.fields import Flag, IntOrZero, StrictFlag
from app.http.input.instance_schemas import ListQuery
from app.http.input.schemas import PAGE_NO_TEXT, PAGE_SIZE_TEXT, CallSchema, NeededServiceSchema, load_parameters
from app.http.shapes.described import Described
from app.http.shapes.operator_shapes import PUSH_STATE
from app.http.shapes.service_shapes import SUBSCRIBERS
from app.naming.model.keys import PORT_MAX, group_of, short_name_of
from app.naming.push.udp_subscribers import DATAGRAM_BYTES_MAX, PORT_MIN, Subscriber
from app.peers.asked import ask_member
from distro.model.types import MemberState
from distro.timing.clock import SystemClock

ADDRESSES_KEPT = 1_024


def normal_ip(text: str) -> str | None:
    """An address without brackets and without the prefix of IPv4 on a socket for both families; None for no address."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def is_of_caller(stated: str, remote_ip: str) -> bool:
    """Return whether ``stated`` is the address that a call came from, or both are addresses of this machine.

    Both are in the form that ``normal_ip`` returns.
    A client on this machine calls from a loopback address, and states another one of the machine's.
    """
    return stated == remote_ip or (_is_here(remote_ip) and _is_here(stated))


@lru_cache(ADDRESSES_KEPT)
def _is_here(ip: str) -> bool:
    address = ip_address(ip)
    # A socket may be bound to an address of many machines, too.
    return is_loopback(ip) or (not (address.is_multicast or address.is_reserved) and is_this_machine(ip))


GO_BYTES_MAX = 4_024
"""The Go SDK reads so much of a datagram."""
APP_CHARS_MAX = 128
ASK_MS_MAX = 2_000
"""The time for asking all other members together."""
ASK_ONE_MS_MAX = 1_000
PAGE_SIZE = 2_000
PAGES_MAX = 50
SUBSCRIBERS_PAGE_SIZE = 1_000
_FIELDS = ("addrStr", "agent", "app", "ip", "namespaceId", "serviceName")
_CLOCK = SystemClock()
Shown = dict[str, Any]


class SubscribersSchema(NeededServiceSchema):
    """GET ``/service/subscribers``. Nacos 1.4.1 wants a page, though its members ask without one; 1.4.8 does not."""

    page = IntOrZero("pageNo", PAGE_NO_TEXT, 1)
    size = IntOrZero("pageSize", PAGE_SIZE_TEXT, SUBSCRIBERS_PAGE_SIZE)
    aggregation = StrictFlag("aggregation", "Whether all other members are asked, too.", True)


class PushStateSchema(CallSchema):
    detail = Flag("detail", "With the pushes that are not acknowledged.", False)
    reset = Flag("reset", "Set the counts back to 0.", False)


def subscribe(call: Call, services: Services, query: ListQuery, agent: Agent) -> bool:
    """Subscribe the client of a list query that names a port; return whether the client may rely on pushes.

    Pushes go to the address that the query came from. Any other one might be a victim's, unless
    ``rollcall.push.udp.trustNat`` says that clients behind an address translation state theirs.

    Source: Nacos 1.4.1 InstanceController.doSrvIpxt, which takes any address, and true for a text that is not one.
    """
    if not PORT_MIN <= query.udp_port <= PORT_MAX or not may_be_pushed(agent, services.durable.switches):
        return False
    remote_ip = normal_ip(call.remote_ip) or ""
    ip = normal_ip(query.client_ip) if query.client_ip else remote_ip
    if ip is None or not (services.settings.guards.push_trusts_nat or is_of_caller(ip, remote_ip)):
        services.push.refuse()
        return ip is None
    services.push.subscribe(
        Subscriber(
            namespace=query.namespace,
            service=query.service,
            clusters=query.clusters,
            ip=ip,
            port=query.udp_port,
            agent=call.agent[:AGENT_CHARS_MAX],
            app=query.app[:APP_CHARS_MAX],
            bytes_max=GO_BYTES_MAX if agent.type is ClientType.GO else DATAGRAM_BYTES_MAX,
            java=agent.java_since_1_0,
            reads_gzip=agent.reads_gzip,
        )
    )
    return True


@route(
    "GET",
    "/v1/ns/service/subscribers",
    access=naming(READ, Target.NAMESPACE).or_members(),
    described=Described(SUBSCRIBERS, takes=(SubscribersSchema,)),
)
def list_subscribers(call: Call, services: Services) -> Answer:
    """One page of the subscribers, at all members, of services whose name contains the given one.

    Shape: subscribers, count; none and 0 for a page after the last. Source: Nacos 1.4.1 ServiceController.subscribers.
    """
    values = load_parameters(SubscribersSchema, call.parameters)
    namespace, service, size = values["namespace"], values["service"], page_size(values["size"], services)
    found = [_shown(one) for one in services.push.subscribers(namespace) if _matches(one.service, service)]
    if values["aggregation"] and not services.cluster.standalone:
        found.extend(_of_others(services, namespace, service))
        found = list({tuple(one.values()): one for one in found}.values())
    found.sort(key=lambda one: (one["serviceName"], one["addrStr"]))
    start = (values["page"] - 1) * size
    end = min(start + size, len(found))
    if not 0 <= start <= end:
        return json_reply({"subscribers": [], "count": 0})
    return json_reply({"subscribers": found[start:end], "count": len(found)})


def _matches(name: str, wanted: str) -> bool:
    return short_name_of(wanted) in short_name_of(name) and group_of(wanted) in group_of(name)


def _shown(one: Subscriber) -> Shown:
    return {
        "addrStr": f"{one.ip}:{one.port}",
        "agent": one.agent,
        "app": one.app,
        "ip": one.ip,
        "namespaceId": one.namespace,
        "serviceName": one.service,
    }


def _of_others(services: Services, namespace: str, service: str) -> list[Shown]:
    """The subscribers at the other members that are not DOWN, page by page; a member that answers late is left out."""
    deadline_ms = _CLOCK.monotonic_ms() + ASK_MS_MAX
    found: list[Shown] = []
    size = min(PAGE_SIZE, services.settings.limits.page_size)  # the others have the same limit
    for member in services.cluster.members():
        if member.address == services.cluster.self_address or member.state is MemberState.DOWN:
            continue
        for page in range(1, PAGES_MAX + 1):
            left_ms = min(deadline_ms - _CLOCK.monotonic_ms(), ASK_ONE_MS_MAX)
            query: dict[str, str | int] = {
                "namespaceId": namespace,
                "serviceName": service,
                "aggregation": "false",
                "pageNo": page,
                "pageSize": size,
            }
            answer = (
                ask_member(services, member.address, "/v1/ns/service/subscribers", query, left_ms / 1_000)
                if left_ms > 0
                else None
            )
            listed = answer.get("subscribers") if answer else None
            part = [_taken(one) for one in listed if _is_subscriber(one)] if isinstance(listed, list) else []
            found.extend(part)
            if len(part) < size:
                break
    return found


def _is_subscriber(fields: object) -> bool:
    return isinstance(fields, dict) and all(isinstance(fields.get(name), str) for name in _FIELDS)


def _taken(fields: dict[str, str]) -> Shown:
    return {name: fields[name] for name in _FIELDS}


@route(
    "POST",
    "/v1/ns/operator/push/state",
    "/v1/ns/ops/push/state",
    access=admin(WRITE),
    described=Described(PUSH_STATE, takes=(PushStateSchema,)),
)
def reset_push_state(call: Call, services: Services) -> Answer:
    """As GET, and with ``reset`` the counts begin again."""
    return push_state(call, services)


@route(
    "GET",
    "/v1/ns/operator/push/state",
    "/v1/ns/ops/push/state",
    access=admin(READ),
    described=Described(PUSH_STATE, takes=(PushStateSchema,)),
)
def push_state(call: Call, services: Services) -> Answer:
    """Counts of pushes. Shape: succeed, total, ratio, reset; with ``detail`` data, the pushes not acknowledged yet."""
    values = load_parameters(PushStateSchema, call.parameters)
    if values["reset"] and call.method in READS:
        check_access(admin(WRITE), call, services)
    stats, waiting = services.push.state(reset=values["reset"])
    succeeded = stats.total - stats.failed - stats.too_large
    state: dict[str, Any] = {
        "succeed": succeeded,
        "total": stats.total,
        "ratio": succeeded / stats.total if stats.total else 0,
    }
    if values["detail"]:
        state["data"] = [
            f"{one.namespace}##{one.service} to {one.ip}:{one.port} ({one.agent}): push {reference}, sent {sends} times"
            for one, reference, sends in waiting
        ]
    state["reset"] = values["reset"]
    return json_reply(state)
