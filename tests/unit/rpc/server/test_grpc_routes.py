"""A message that came before is known by its bytes, within bounds."""

from app.auth.access_rules import PUBLIC
from app.peers.payload import Payload
from app.rpc.server.grpc_routes import KNOWN_BYTES_MAX, GrpcRequest, GrpcRoute, KnownMessages


async def handler(_asked: GrpcRequest) -> bytes:
    return b""


ROUTE = GrpcRoute(handler, "XResponse", PUBLIC)


def add(known: KnownMessages, data: bytes) -> None:
    known.read(data, Payload(data.decode(), "", b""), ROUTE)


def test_what_came_before_is_found_by_its_bytes() -> None:
    known = KnownMessages()
    add(known, b"a")
    add(known, b"b")
    found = known.get(b"a")
    assert found is not None
    assert (found.message.type, found is known.get(b"a"), known.get(b"c")) == ("a", True, None)


def test_what_is_asked_for_stays_and_the_rest_goes() -> None:
    known = KnownMessages(messages_max=4)
    for number in range(100):
        add(known, b"kept") if known.get(b"kept") is None else None
        add(known, b"%d" % number)
        assert len(known) <= 8
        assert number == 0 or known.get(b"kept") is not None
    assert known.get(b"1") is None


def test_long_messages_are_not_kept() -> None:
    known = KnownMessages()
    add(known, b"a" * KNOWN_BYTES_MAX)
    add(known, b"b" * (KNOWN_BYTES_MAX + 1))
    assert len(known) == 1
