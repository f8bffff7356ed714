"""The index of HTTP instances against a plain model, made anew from the lists after every step."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.naming.clients.client_codec import encode_client
from app.naming.model.keys import instance_key
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.address_clients import TICK_MS, HttpClients, tag_of
from distro.members.mapper import DistroMapper
from tests.support.nacos_view import NacosView

MEMBERS = ("10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848")
SERVICES = ("G@@a", "G@@b", "G@@c")
NOW_MS = 1_000

ADDRESSES = st.tuples(st.sampled_from(["10.9.0.1", "10.9.0.2", "10.9.0.3"]), st.sampled_from([80, 81]))
PLACES = st.tuples(st.sampled_from(SERVICES), ADDRESSES, st.sampled_from(["DEFAULT", "c1"]))
STEPS = st.one_of(
    st.tuples(st.just("register"), PLACES, st.sampled_from([1.0, 2.0])),
    st.tuples(st.just("remove"), PLACES, st.none()),
    st.tuples(st.just("health"), PLACES, st.booleans()),
    st.tuples(st.just("tick"), st.none(), st.none()),
)
Model = dict[str, dict[str, tuple[str, float, bool]]]
"""By address and service: cluster, weight and health of the one instance that is told."""


def index_of(registry: Registry, member: str, tell: Callable[[str], None]) -> HttpClients:
    view: Any = NacosView(member, *MEMBERS)
    return HttpClients(lambda: view, registry.lists, tell, lambda _client_id: None)


def model_of(registry: Registry) -> Model:
    model: Model = {}
    for name in SERVICES:
        service = registry.table.get("public", name)
        stored = service.stored if service is not None else {}
        for one in sorted((stored.instance for stored in stored.values()), key=lambda one: one.cluster_name):
            told = model.setdefault(f"{one.ip}:{one.port}", {})
            told.setdefault(name, (one.cluster_name, one.weight, one.healthy))
    return model


def shown(index: HttpClients) -> Model:
    model: Model = {}
    for client_id in index.ids():
        state = index.state(client_id)
        assert state is not None
        told = model.setdefault(tag_of(client_id), {})
        for (_, name), part in state.publications.items():
            [one] = part.instances.values()
            told[name] = (one.cluster_name, one.weight, one.healthy)
    return model


def states(index: HttpClients) -> dict[str, bytes]:
    return {client_id: encode_client(state) for client_id in index.ids() if (state := index.state(client_id))}


@given(st.lists(STEPS, max_size=60))
def test_random_changes_give_the_same_clients_as_making_them_anew_and_one_member_tells_each(
    steps: list[tuple[str, tuple[str, tuple[str, int], str] | None, float | bool | None]],
) -> None:
    registry = Registry.of("m~1")
    told: list[tuple[str, str]] = []
    indexes = {
        member: index_of(registry, member, lambda client_id, member=member: told.append((member, client_id)))  # type: ignore[misc]
        for member in MEMBERS
    }
    for index in indexes.values():
        index.tick(NOW_MS)
    before: dict[str, bytes] = {}
    for name, place, what in [*steps, ("tick", None, None)]:
        if place is None:
            for index in indexes.values():
                assert index.tick(NOW_MS) == NOW_MS + TICK_MS
            after = states(indexes[MEMBERS[0]])
            changed = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
            assert {client_id for _, client_id in told} >= changed, "each change is told"
            assert all(DistroMapper.over(member, MEMBERS).responsible(tag_of(one)) for member, one in told)
            assert shown(indexes[MEMBERS[0]]) == model_of(registry)
            anew = index_of(registry, MEMBERS[0], lambda _client_id: None)
            anew.tick(NOW_MS)
            assert all(states(index) == states(anew) for index in indexes.values())
            before = after
            told.clear()
            continue
        service, (ip, port), cluster = place
        key = instance_key(ip, port, cluster)
        found = registry.table.get("public", service)
        changed_key: str | None = None
        if name == "register":
            replaced = registry.writes.register(
                RegisterInstance(service, ip, port, cluster=cluster, weight=float(what or 1.0)), NOW_MS
            )
            changed_key = replaced.key if replaced is not None else None
        elif name == "remove":
            removed = registry.writes.remove("public", service, key, NOW_MS)
            changed_key = removed.key if removed is not None else None
        elif found is not None and registry.writes.set_health(found, key, bool(what), NOW_MS):
            changed_key = found.key
        if changed_key is not None:
            for index in indexes.values():
                index.mark(changed_key)
