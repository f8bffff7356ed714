"""Calls among members over real sockets: shapes, and deadlines that hold however slowly a peer drips."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from distro.model.errors import RejectedError, TransportError
from distro.model.types import CAPABILITY_GZIP, CAPABILITY_VERSIONS, Datum, Version
from distro.timing.clock import SystemClock
from distro.wire.http_agent import DistroHttpAgent
from tests.support.tiny_server import Given, refusing_address, tiny_server

KEY = "com.alibaba.nacos.naming.iplist.ephemeral.public##DEFAULT_GROUP@@a"
OWN = frozenset({CAPABILITY_VERSIONS, CAPABILITY_GZIP})
VERSION = Version(1, 2, "a:1~x")


def datum(count: int = 1) -> Datum:
    instances = [Instance(f"10.0.0.{i}", 80, service_name="DEFAULT_GROUP@@a") for i in range(count)]
    return Datum(KEY, VERSION, InstanceList({one.key: StoredInstance(one, VERSION, 0) for one in instances}, {}))


@contextmanager
def agent(capabilities: frozenset[str]) -> Iterator[DistroHttpAgent]:
    clock = SystemClock()
    made = DistroHttpAgent(
        self_address="127.0.0.1:1",
        context_path="/nacos",
        user_agent="Nacos-Server:1.4.8",
        headers={},
        codec=InstanceListCodec(clock.wall_ms),
        clock=clock,
        capabilities=lambda _: capabilities,
        deadline=lambda _peer, _left_ms: "",
        stamp=lambda: "run 1",
        sent_ms=lambda _peer, _clock: clock.monotonic_ms(),
        body_bytes_max=1_000_000,
    )
    try:
        yield made
    finally:
        made.close()


def test_our_own_kind_gets_versions_in_gzip() -> None:
    answer = Given(200, b'{"refused":{"k":"3.4.b:1~y"},"failed":{"l":"why"}}')
    with tiny_server(lambda _: answer) as server, agent(OWN) as one:
        received = one.sync_data(server.address, [datum(20)], 2_000)
        (sent,) = server.received
        one.close()
    assert received.refused == {"k": Version(3, 4, "b:1~y")}
    assert received.failed == {"l": "why"}
    body = json.loads(gzip.decompress(sent.body))
    assert body[KEY]["version"] == VERSION.to_text()
    assert len(body[KEY]["value"]["instanceList"]) == 20


def test_real_nacos_gets_plain_json_without_our_fields() -> None:
    with tiny_server(lambda _: Given(200, b"ok")) as server, agent(frozenset()) as one:
        one.sync_data(server.address, [datum(20)], 2_000)
        (sent,) = server.received
        one.close()
    body = json.loads(sent.body)
    assert set(body[KEY]) == {"key", "value", "timestamp"}
    assert "version" not in body[KEY]["value"]["instanceList"][0]


@pytest.mark.parametrize(
    ("status", "kind"), [(400, RejectedError), (500, TransportError), (501, RejectedError), (503, TransportError)]
)
def test_a_refusal_is_told_from_a_failure(status: int, kind: type[TransportError]) -> None:
    with tiny_server(lambda _: Given(status, b"no")) as server, agent(OWN) as one:
        with pytest.raises(TransportError) as caught:
            one.sync_data(server.address, [datum()], 2_000)
        one.close()
    assert type(caught.value) is kind or (kind is TransportError and not isinstance(caught.value, RejectedError))


def test_a_member_that_loads_has_nothing_to_give() -> None:
    with tiny_server(lambda _: Given(503, b"server is STARTING now")) as server, agent(OWN) as one:
        assert one.load(server.address, 2_000) is None
        one.close()


def test_nobody_there_is_told_from_silence() -> None:
    with agent(OWN) as one, pytest.raises(TransportError) as caught:
        one.sync_data(refusing_address(), [datum()], 2_000)
    assert caught.value.refused


def test_a_peer_that_drips_does_not_outlive_the_deadline() -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000:
                    if stop.wait(0.05):
                        return
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        begun_s = time.monotonic()
        try:
            with agent(OWN) as one, pytest.raises(TransportError) as caught:
                one.sync_data(address, [datum()], 400)
        finally:
            stop.set()
            dripping.join()
    assert not caught.value.refused
    assert time.monotonic() - begun_s < 60.0, "each single read would have had the whole time"
