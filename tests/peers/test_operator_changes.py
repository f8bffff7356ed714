"""Operators' changes of instances at real Nacos 2.3.1 and at ours: what readers see after each call is the same."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.peers.real_members import MixedCluster
from tests.peers.test_real_nacos_2 import PATIENT, SEEN_TIMEOUT_S, listed, register, sdk_of
from tests.support.client import Client
from tests.support.processes import eventually
from tests.support.sdk_client import run_client

Seen = tuple[int, dict[str, Any] | None, dict[str, Any] | None]
"""The status of a call, and the attributes that readers see after it, and after a registration anew."""
PORT = 80
REGISTERED = {"weight": "1.0", "enabled": "true"}
V1, V2 = "/v1/ns/instance", "/v2/ns/instance"
SOURCES = ("http", "grpc", "persistent")
OWN = {"zone": "a", **json.loads(PATIENT)}
"""The metadata of the registration; over HTTP it lives without beats for so long."""


@dataclass(frozen=True)
class Row:
    """A call, and the expected change of what was registered."""

    name: str
    method: str
    path: str
    values: Mapping[str, str]
    changed: Mapping[str, object]
    is_batch: bool = False


ALL = {"weight": "5.0", "enabled": "false", "metadata": '{"by":"ops","zone":"b"}'}
CHANGED = {"weight": 5.0, "enabled": False, "metadata": {**OWN, "by": "ops", "zone": "b"}}
LABEL = {"metadata": '{"by":"ops"}'}
LABELLED = {"metadata": {**OWN, "by": "ops"}}
ROWS = [
    Row("put", "PUT", V2, ALL, CHANGED),
    Row("put weight", "PUT", V2, {"weight": "5.0"}, {"weight": 5.0}),
    Row("put enabled", "PUT", V2, {"enabled": "false"}, {"enabled": False}),
    Row("put metadata", "PUT", V2, LABEL, LABELLED),
    Row("patch", "PATCH", V2, ALL, CHANGED),
    Row("batch", "PUT", f"{V2}/metadata/batch", LABEL, LABELLED, is_batch=True),
    Row("batch removal", "DELETE", f"{V2}/metadata/batch", {"metadata": '{"zone":""}'}, {}, is_batch=True),
]
V1_ROWS = [
    Row("v1 put", "PUT", V1, ALL, CHANGED),
    Row("v1 patch", "PATCH", V1, ALL, CHANGED),
    Row("v1 batch", "PUT", f"{V1}/metadata/batch", LABEL, LABELLED, is_batch=True),
]
"""Over v1 our HTTP and persistent instances change themselves, as in 1.4."""


@dataclass(frozen=True)
class Place:
    """A member, and the address of the instances there: of one for which real Nacos takes this member over v1."""

    member: Client
    ip: str
    all_members: tuple[Client, ...]
    """A batch over v1 names no address: a real member sends it to one of these, and that one must know the instance."""


def seen(place: Place, service: str) -> dict[str, Any] | None:
    """Return the attributes that a member shows of the instance; None while it shows none."""
    member = place.member
    answer = member.call("GET", V2, serviceName=service, ip=place.ip, port=PORT)
    if answer.status != 200:
        return None
    detail = answer.json()["data"]
    hosts = member.call("GET", f"{V2}/list", serviceName=service).json()["data"]["hosts"]
    return {"weight": detail["weight"], "enabled": len(hosts) == 1, "metadata": detail["metadata"]}


def make_call(place: Place, row: Row, service: str, source: str) -> int:
    """Make the row's call at a member. Return the status."""
    values: dict[str, Any] = {"serviceName": service, **row.values}
    if row.is_batch:
        one = {"ip": place.ip, "port": PORT, "clusterName": "DEFAULT", "ephemeral": source != "persistent"}
        values["instances"] = json.dumps([one])
    else:
        values |= {"ip": place.ip, "port": PORT}
    return place.member.call(row.method, row.path, **values).status


async def of_row(place: Place, row: Row, service: str, register_it: Callable[[], Awaitable[None]], kind: str) -> Seen:
    """Return the status of a row's call, and what the member shows after it and after a registration anew."""
    before: dict[str, object] = {"weight": 1.0, "enabled": True, "metadata": OWN}

    async def shows(wanted: Mapping[str, object], timeout_s: float) -> None:
        await asyncio.to_thread(eventually, lambda: seen(place, service) == wanted, timeout_s)

    await register_it()
    await shows(before, SEEN_TIMEOUT_S)
    if row.path.startswith(V1):
        await asyncio.to_thread(
            eventually, lambda: all(listed(one, service) for one in place.all_members), SEEN_TIMEOUT_S
        )
    status = await asyncio.to_thread(make_call, place, row, service, kind)
    with suppress(AssertionError):
        await shows({**before, **row.changed}, SEEN_TIMEOUT_S / 12)
    after = await asyncio.to_thread(seen, place, service)
    await register_it()
    return status, after, await asyncio.to_thread(seen, place, service)


async def results(place: Place) -> dict[str, Seen]:
    """Return the results of the table at a member, by row and kind of instance."""
    member = place.member
    found: dict[str, Seen] = {}
    rows = [(row, source) for row in ROWS for source in SOURCES] + [(row, "grpc") for row in V1_ROWS]
    async with AsyncExitStack() as stack:
        for number, (row, source) in enumerate(rows):
            service = f"operated-{member.address.rpartition(':')[2]}-{number}"
            if source == "grpc":
                sdk = await stack.enter_async_context(sdk_of(member))
                await sdk.set_up()
                register_it = partial(register, sdk, service, place.ip, weight=1.0, enabled=True, metadata=OWN)
            else:
                register_it = partial(asyncio.to_thread, register_over_http, place, service, source)
            found[f"{row.name}, {source}"] = await of_row(place, row, service, register_it, source)
    return found


def register_over_http(place: Place, service: str, source: str) -> None:
    """Register the instance, with metadata that keeps it without beats."""
    values = {"serviceName": service, "ip": place.ip, "port": PORT, "metadata": json.dumps(OWN), **REGISTERED}
    kind = "false" if source == "persistent" else "true"
    assert place.member.call("POST", V2, **values, ephemeral=kind).status == 200


def await_leaders(place: Place) -> None:
    """Return when a member takes changes and persistent instances: real Nacos elects a leader for each of the two.

    Until then it answers 500.
    """
    service = f"elected-{place.member.address.rpartition(':')[2]}"

    def takes_persistent() -> bool:
        register_over_http(place, f"{service}-persistent", "persistent")
        return True

    register_over_http(place, service, "http")
    eventually(lambda: make_call(place, ROWS[0], service, "http") == 200, SEEN_TIMEOUT_S)
    eventually(takes_persistent, SEEN_TIMEOUT_S)


def test_an_operators_change_is_seen_as_at_real_nacos(mixed_2: MixedCluster) -> None:
    places = [
        Place(one, mixed_2.owned_ip(one, "10.0.0"), mixed_2.clients) for one in (mixed_2.first, mixed_2.ours.client)
    ]
    for place in places:
        await_leaders(place)

    async def main() -> None:
        real, ours = [await results(place) for place in places]
        for name in real:
            print(f"{'' if real[name] == ours[name] else 'DIFFERS '}{name}: real {real[name]}, ours {ours[name]}")
        assert ours == real

    run_client(main)
