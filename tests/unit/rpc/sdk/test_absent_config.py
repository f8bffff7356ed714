"""Requests of SDKs for configurations, of which none exists."""

import asyncio
from typing import Any

import pytest

from app.machine.process.config_call_log import ConfigCallLog
from app.naming.model.json_fields import Fields
from app.rpc.sdk.absent_config import AbsentConfigHandlers
from app.rpc.server.connections import Connections
from app.rpc.server.grpc_routes import GrpcRequest


def ask(kind: str) -> tuple[str, dict[str, Any], ConfigCallLog]:
    calls = ConfigCallLog()
    route = AbsentConfigHandlers(calls).routes()[kind]
    connection = Connections(lambda: 5_000, lambda: 1_000).opened("ipv4:10.1.2.3:5", False)
    answer = asyncio.run(route.handler(GrpcRequest(connection, Fields({"dataId": "a"}))))  # type: ignore[arg-type]
    assert isinstance(answer, dict)
    return route.answer_type, answer, calls


def test_a_query_finds_none() -> None:
    kind, answer, calls = ask("ConfigQueryRequest")
    assert kind == "ConfigQueryResponse"
    assert (answer["resultCode"], answer["errorCode"], answer["success"]) == (500, 300, False)
    assert (calls.stats.config_absent, calls.stats.config_refused) == (1, 0)


def test_a_listen_tells_of_no_change() -> None:
    kind, answer, _ = ask("ConfigBatchListenRequest")
    assert kind == "ConfigChangeBatchListenResponse"
    assert (answer["resultCode"], answer["changedConfigs"], answer["success"]) == (200, [], True)


@pytest.mark.parametrize("what", ["Publish", "Remove"])
def test_writes_are_refused(what: str) -> None:
    kind, answer, calls = ask(f"Config{what}Request")
    assert kind == f"Config{what}Response"
    assert (answer["resultCode"], answer["success"]) == (500, False)
    assert "naming server" in answer["message"]
    assert calls.stats.config_refused == 1
