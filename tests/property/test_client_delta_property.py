"""Deltas of clients (R5): lost, repeated or late, they leave a copy in one of its client's states, or as it was."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.clients.client_model import RECENT_MAX, ClientInfo
from app.naming.clients.clients import build_clients
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.client_type import ClientCodec, ClientStore, client_key
from distro.model.errors import CodecError
from distro.model.types import Datum, Version
from distro.wire.codec import decode_frame, encode_frame

ID = "1700000000000_10.9.0.1_40000"
KEY = client_key(ID)
CODEC = ClientCodec()
SERVICES = [f"G@@s{number}" for number in range(4)]
NOW_MS = 1_000

steps = st.lists(
    st.tuples(
        st.sampled_from(["register", "batch", "withdraw", "send", "send late", "send twice"]),
        st.sampled_from(SERVICES),
        st.integers(1, 5),
    ),
    max_size=40,
)


class Side:
    """One member's clients."""

    def __init__(self, address: str) -> None:
        self.registry = Registry.of(f"{address}~1")
        self.clients = build_clients(self.registry, lambda: NOW_MS, lambda: 5, lambda _event: None)
        parts = self.clients
        self.store = ClientStore(parts.table, parts.own, parts.copies, address, lambda _writer: False)

    def whole(self) -> Datum:
        [datum] = self.store.datums([KEY])
        return datum

    def arrive(self, datum: Datum) -> bool:
        """Take a datum, over the wire; False when the whole is wanted."""
        [came], failed = decode_frame(encode_frame([datum], CODEC, NOW_MS, versioned=True), CODEC, NOW_MS)
        assert not failed
        stored = self.store.version(KEY)
        if stored is not None and stored.has_had(came.version):
            return True
        return self.store.apply(came, stored, NOW_MS) if came.base is None else self.store.apply_delta(came, NOW_MS)

    def published(self) -> dict[tuple[str, str], list[int]]:
        client = self.clients.table.client(ID)
        published = client.published if client is not None else {}
        return {key: sorted(one.port for one in part.instances.values()) for key, part in published.items()}

    def shown(self) -> dict[str, list[int]]:
        """The ports of each service, as readers see them."""
        found = {}
        for name in SERVICES:
            service = self.registry.table.get("public", name)
            parts = list((service.published or {}).values()) if service is not None else []
            if ports := sorted(one.port for part in parts for one in part.instances.values()):
                found[name] = ports
        return found


def owner() -> Side:
    side = Side("10.0.0.1:8848")
    side.clients.own.connect(ClientInfo(ID, "10.9.0.1", 40_000, "shop", "sdk"))
    side.clients.own.register(ID, RegisterInstance(SERVICES[0], "10.9.0.1", 80))
    return side


def change(side: Side, what: str, service: str, number: int) -> None:
    command = RegisterInstance(service, "10.9.0.1", 80 + number)
    if what == "register":
        side.clients.own.register(ID, command)
    elif what == "batch":
        side.clients.own.batch_register(ID, "public", service, [command, command._replace(port=90)])
    else:
        side.clients.own.deregister(ID, "public", service)


@given(steps)
def test_a_copy_is_always_a_state_of_its_client_and_in_the_end_the_last(taken: list[tuple[str, str, int]]) -> None:
    first, second = owner(), Side("10.0.0.2:8848")
    assert second.arrive(first.whole())
    states = {first.store.version(KEY): first.published()}
    acknowledged, late = first.store.version(KEY), list[Datum]()
    assert acknowledged is not None
    for what, service, number in taken:
        if not what.startswith("send"):
            change(first, what, service, number)
            states[first.store.version(KEY)] = first.published()
            continue
        sent = first.store.delta(KEY, acknowledged) or first.whole()
        if what == "send late":
            late.append(sent)
            continue
        for one in (sent, *([sent] if what == "send twice" else []), *late):
            if second.arrive(one) and one is sent:
                acknowledged = sent.version
        assert second.published() == states[second.store.version(KEY)]
    last = first.store.delta(KEY, acknowledged) or first.whole()
    assert second.arrive(last) or second.arrive(first.whole())
    assert (second.published(), second.shown()) == (first.published(), first.shown())


def test_a_change_of_one_service_of_many_travels_alone() -> None:
    first, second = owner(), Side("10.0.0.2:8848")
    for number in range(1_000):
        first.clients.own.register(ID, RegisterInstance(f"G@@many{number}", "10.9.0.1", 80))
    second.arrive(first.whole())
    base = first.store.version(KEY)
    assert base is not None
    change(first, "register", SERVICES[1], 1)
    first.clients.own.deregister(ID, "public", "G@@many7")
    delta = first.store.delta(KEY, base)
    assert delta is not None
    assert len(encode_frame([delta], CODEC, NOW_MS, versioned=True)) < 1_000
    assert second.arrive(delta)
    assert second.published() == first.published()


def test_more_changes_than_are_remembered_travel_as_a_whole() -> None:
    side = owner()
    side.clients.own.register(ID, RegisterInstance(SERVICES[1], "10.9.0.1", 80))
    base = side.store.version(KEY)
    assert base is not None
    for number in range(2 * RECENT_MAX):
        change(side, "register", SERVICES[2], number + 1)
    assert side.store.delta(KEY, base) is not None
    change(side, "register", SERVICES[2], 0)
    assert side.store.delta(KEY, base) is None


@pytest.mark.parametrize(
    ("base", "version"),
    [
        (Version(1, 8, "10.0.0.1:8848~1"), Version(1, 9, "10.0.0.1:8848~1")),
        (Version(1, 1, "10.0.0.1:8848~2"), Version(1, 2, "10.0.0.1:8848~2")),
    ],
    ids=["of a later base", "of another run"],
)
def test_a_delta_of_another_state_changes_nothing(base: Version, version: Version) -> None:
    first, second = owner(), Side("10.0.0.2:8848")
    second.arrive(first.whole())
    change(first, "register", SERVICES[1], 1)
    before = second.published()
    assert not second.store.apply_delta(Datum(KEY, version, first.whole().value, base), NOW_MS)
    assert second.published() == before


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"since": -1}, "'since'"),
        ({"since": 0}, "'since'"),
        ({"since": 2}, "'since'"),
        ({"since": "1"}, "'since'"),
        ({"since": True}, "'since'"),
        ({"own": {"gone": [["public"]]}}, "'gone'"),
        ({"own": {"gone": [["public", SERVICES[0]]]}}, "'gone' of a client names a service that it publishes"),
        (
            {"own": {"gone": [["public", str(one)] for one in range(2 * RECENT_MAX + 1)]}},
            "'gone' of a client must be a list",
        ),
        ({"since": None, "own": {"gone": [["public", "G@@x"]]}}, "'gone' of a client is for deltas"),
    ],
)
def test_a_delta_that_is_none_is_refused(fields: dict[str, Any], text: str) -> None:
    version = Version(1, 2, "10.0.0.1:8848~1")
    good = orjson.loads(
        CODEC.encode(Datum(KEY, version, owner().whole().value, Version(1, 1, version.writer)), 0, True)
    )
    assert CODEC.decode(KEY, good, NOW_MS).base == Version(1, 1, version.writer)
    with pytest.raises(CodecError, match=text):
        CODEC.decode(KEY, {**good, **fields, "own": good["own"] | fields.get("own", {})}, NOW_MS)
