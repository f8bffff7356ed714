"""Requests of SDKs for configurations, of which none exists."""

import asyncio
from typing import Any

import pytest

from app.machine.process.config_call_log import ConfigCallLog
from app.naming.model.json_fields import Fields
from app.peers import payload as wire
from app.rpc.sdk.absent_config import AbsentConfigHandlers
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.grpc_routes import GrpcRequest, GrpcRoute


def ask(kind: str) -> tuple[str, dict[str, Any], ConfigCallLog]:
    calls = ConfigCallLog()
    kind, answer = answer_of(AbsentConfigHandlers(calls).routes()[kind], connect(), {"dataId": "a"})
    return kind, answer, calls


def connect() -> Connection:
    return Connections(lambda: 5_000, lambda: 1_000).opened("ipv4:10.1.2.3:5", False)


def answer_of(route: GrpcRoute, connection: Connection, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    answer = asyncio.run(route.handler(GrpcRequest(connection, Fields(fields))))  # type: ignore[arg-type]
    assert isinstance(answer, dict)
    return route.answer_type, answer


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


@pytest.mark.parametrize(
    ("kind", "first", "sent"), [("WATCH", True, 1), ("WATCH", False, 0), ("CANCEL_WATCH", True, 0)]
)
def test_a_watch_by_a_pattern_begins_with_an_empty_list(kind: str, first: bool, sent: int) -> None:
    calls, connection = ConfigCallLog(), connect()
    route = AbsentConfigHandlers(calls).routes()["ConfigFuzzyWatchRequest"]
    fields = {"groupKeyPattern": "public>>*>>*", "watchType": kind, "initializing": first}
    assert answer_of(route, connection, fields)[1]["success"]
    messages = [wire.decode(one) for one in connection.controls]
    assert [(one.type, one.json()["syncType"], one.json()["groupKeyPattern"]) for one in messages] == sent * [
        ("ConfigFuzzyWatchSyncRequest", "FINISH_FUZZY_WATCH_INIT_NOTIFY", "public>>*>>*")
    ]


def test_a_watch_is_refused_in_its_own_type_where_configurations_are_not_answered_for() -> None:
    calls = ConfigCallLog()
    [route] = AbsentConfigHandlers(calls).refusals().values()
    kind, answer = answer_of(route, connect(), {})
    assert (kind, answer["resultCode"], answer["success"]) == ("ConfigFuzzyWatchResponse", 500, False)
    assert calls.stats.config_refused == 1
