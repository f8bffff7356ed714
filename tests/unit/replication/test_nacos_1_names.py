"""Services that members of Nacos 1.4 cannot hold: not sent to them, and named in the log once."""

import json
import logging

import pytest

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, StoredInstance
from app.naming.registry.merge import InstanceList
from app.naming.wire.datum_codec import InstanceListCodec
from app.replication import nacos_1_names
from app.replication.instance_list_type import InstanceListAgent
from app.replication.nacos_1_names import NacosOneNames
from distro.model.types import Datum, Received, Version
from distro.timing.clock import SystemClock
from tests.support.fake_node import SELF
from tests.support.tiny_server import Given, TinyServer, tiny_server

VERSION, PROVIDER = Version(1, 2, "a:1~x"), "G@@providers:com.foo.Outer$Inner:1.0.0:"


def datum(name: str) -> Datum:
    one = Instance("10.0.0.1", 80, service_name=name)
    return Datum(datum_key("public", name), VERSION, InstanceList({one.key: StoredInstance(one, VERSION, 0)}, {}))


def make_agent(names: NacosOneNames, *capabilities: str) -> InstanceListAgent:
    clock = SystemClock()
    return InstanceListAgent(
        lambda _namespace, _name: None,
        names,
        self_address=SELF,
        context_path="/nacos",
        user_agent="Nacos-Server:1.4.8",
        headers={},
        codec=InstanceListCodec(clock.wall_ms),
        clock=clock,
        capabilities=lambda _: frozenset(capabilities),
        deadline=lambda _peer, _left_ms: "",
        stamp=lambda: "run 1",
        sent_ms=lambda _peer, _clock: 0,
        body_bytes_max=1_000_000,
    )


def sent_keys(server: TinyServer) -> list[list[str]]:
    return [sorted(json.loads(one.body)) for one in server.received if one.body]


def test_such_lists_and_their_checksums_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    names, plain = NacosOneNames(), datum_key("public", "G@@a")
    with tiny_server(lambda _: Given(200, b"ok")) as server, caplog.at_level(logging.WARNING):
        agent = make_agent(names)
        assert agent.sync_data(server.address, [datum("G@@a"), datum(PROVIDER)], 1_000) == Received()
        assert agent.sync_data(server.address, [datum(PROVIDER)], 1_000) == Received()
        agent.verify(server.address, {plain: "1", datum_key("public", PROVIDER): "2"}, 1_000)
        agent.close()
        assert sent_keys(server) == [[plain], [plain]]
    assert names.counters() == {"nacos_1_left_out": 3}
    assert len(caplog.records) == 1
    assert PROVIDER in caplog.text
    assert server.address in caplog.text


def test_our_own_kind_gets_them() -> None:
    names = NacosOneNames()
    with tiny_server(lambda _: Given(200, b"{}")) as server:
        agent = make_agent(names, "versions")
        agent.sync_data(server.address, [datum(PROVIDER)], 1_000)
        agent.close()
        assert sent_keys(server) == [[datum_key("public", PROVIDER)]]
    assert names.counters() == {"nacos_1_left_out": 0}


def test_the_log_names_so_many_and_no_more(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nacos_1_names, "LOGGED_MAX", 2)
    names = NacosOneNames()
    with caplog.at_level(logging.WARNING):
        assert names.datums([datum(f"G@@{number}$") for number in range(5)], "10.0.0.2:8848") == []
    assert (len(caplog.records), names.counters()) == (2, {"nacos_1_left_out": 5})
