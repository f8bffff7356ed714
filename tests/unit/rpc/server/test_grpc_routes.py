"""A message that came before is known by its bytes, within bounds."""

import orjson
import pytest

from app.auth.access_rules import PUBLIC
from app.machine.process.loop_parts import RequestMemo
from app.peers import payload as wire
from app.peers.payload import Payload
from app.rpc.server.dispatcher import read_message
from app.rpc.server.grpc_routes import KNOWN_BYTES_MAX, GrpcRequest, GrpcRoute, KnownMessage, MessageKeeper
from tests.support.traced_memory import traced_rest

Memo = RequestMemo[KnownMessage, KnownMessage]


async def handler(_asked: GrpcRequest) -> bytes:
    return b""


ROUTE = GrpcRoute(handler, "XResponse", PUBLIC)


def memo(bytes_max: int = 1 << 20, now_s: float = 0.0) -> Memo:
    return RequestMemo(MessageKeeper(), bytes_max, KNOWN_BYTES_MAX, 1_024, lambda: now_s)


def add(known: Memo, data: bytes) -> None:
    for _ in range(2):
        known.note(data, read_message(ROUTE, Payload(data.decode(), "", b"")))


def test_what_came_before_is_found_by_its_bytes() -> None:
    known = memo()
    add(known, b"a")
    add(known, b"b")
    found = known.find(b"a")
    assert found is not None
    assert (found.message.type, found is known.find(b"a"), known.find(b"c")) == ("a", True, None)


def test_what_is_asked_for_stays_and_the_rest_goes() -> None:
    now_s = [0.0]
    known: Memo = RequestMemo(MessageKeeper(), 10_000, KNOWN_BYTES_MAX, 1_024, lambda: now_s[0])
    for number in range(100):
        now_s[0] += 30.0
        kept = known.find(b"kept")
        if kept is None:
            add(known, b"kept")
        else:
            kept.used = True
        add(known, b"%d" % number)
        assert len(known) <= 10
        assert number == 0 or known.find(b"kept") is not None
    assert known.find(b"1") is None


def test_long_messages_are_not_kept() -> None:
    known = memo()
    add(known, b"a" * KNOWN_BYTES_MAX)
    add(known, b"b" * (KNOWN_BYTES_MAX + 1))
    assert len(known) == 1


INSTANCE = {
    "ip": "10.0.0.1",
    "port": 8080,
    "weight": 1.0,
    "healthy": True,
    "enabled": True,
    "ephemeral": True,
    "clusterName": "DEFAULT",
    "serviceName": "DEFAULT_GROUP@@orders",
    "metadata": {"version": "1.2.3", "zone": "a"},
}
NAMED = {"namespace": "public", "serviceName": "orders", "groupName": "DEFAULT_GROUP"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"cluster": "", "healthyOnly": False, **NAMED},
        {"type": "registerInstance", "instance": INSTANCE, **NAMED},
        {"metadata": {f"{number}x": f"{number}y" for number in range(60)}},
    ],
    ids=["health check", "query", "registration", "many values"],
)
def test_the_reckoned_memory_is_about_that_which_messages_take(fields: dict[str, object]) -> None:
    known, count = memo(1 << 30), 300
    with traced_rest() as rest:
        for number in range(count):
            data = wire.encode("XRequest", orjson.dumps(fields | {"n": number}))
            for _ in range(2):
                known.note(data, read_message(ROUTE, wire.decode(data)))
        del data
    assert len(known) == count
    assert 0.9 < known.bytes_held / rest() < 1.6
