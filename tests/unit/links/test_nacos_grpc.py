"""What a link makes of the messages of a Nacos over gRPC, and which calls it makes; a test plays the connection."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.links import nacos_grpc
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_connection import SENT_BYTES_MAX, NacosConnection
from app.links.nacos_grpc import GrpcNacos
from app.links.nacos_inbox import Inbox, Message
from app.links.nacos_side import Registration
from app.links.nacos_values import sent_rows
from app.naming.model.model import Instance
from tests.unit.links.test_nacos_out import settings_of

ORDERS = ("public", "G@@orders")


class PlayedConnection:
    """The connection of a test."""

    def __init__(self) -> None:
        self.inbox, self.token, self.id, self.abilities = Inbox(), "", "c1", {"fuzzyWatch": True}
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.answers: dict[str, list[Any]] = {}

    def open(self) -> None: ...

    def call(self, request_type: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        [answer] = self.call_all([(request_type, fields)])
        if isinstance(answer, LinkRefused):
            raise answer
        return dict(answer)

    def call_all(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        self.calls += calls
        return [self.answers.get(kind, [{}]).pop(0) if self.answers.get(kind) else {} for kind, _ in calls]


@pytest.fixture
def connection() -> PlayedConnection:
    return PlayedConnection()


@pytest.fixture
def side(connection: PlayedConnection) -> GrpcNacos:
    one = GrpcNacos(settings_of(), "127.0.0.1:1")
    one._connection.cut()
    one._connection = connection  # type: ignore[assignment] # it has what is used
    one.open()
    return one


def names_message(kind: str, *keys: str, change: str = "ADD_SERVICE") -> Message:
    contexts = [{"serviceKey": key, "changedType": change} for key in keys]
    values = {"syncType": kind, "groupKeyPattern": "public>>*>>*", "contexts": contexts}
    return Message("NamingFuzzyWatchSyncRequest", values, 10)


def test_the_names_of_a_fuzzy_watch_count_from_the_end_of_its_first_list_on(
    side: GrpcNacos, connection: PlayedConnection
) -> None:
    assert side.names("public", ()) is None
    connection.inbox.put(names_message("FUZZY_WATCH_INIT_NOTIFY", "public@@G@@a", "public@@G@@b", "other@@G@@c"))
    assert side.take(0) == []
    assert (side.names_changed(), side.names_changed()) == (True, False)
    assert side.names("public", ()) is None
    connection.inbox.put(names_message("FINISH_FUZZY_WATCH_INIT_NOTIFY"))
    connection.inbox.put(
        Message(
            "NamingFuzzyWatchChangeNotifyRequest", {"serviceKey": "public@@G@@a", "changedType": "DELETE_SERVICE"}, 1
        )
    )
    connection.inbox.put(Message("NamingFuzzyWatchSyncRequest", {"contexts": [None, {"serviceKey": 1}, {}]}, 1))
    side.take(0)
    assert side.names("public", ()) == {"G@@b"}
    assert [kind for kind, _ in connection.calls] == ["NamingFuzzyWatchRequest"]


def test_without_a_fuzzy_watch_the_groups_are_asked_where_the_catalog_is_closed(
    side: GrpcNacos, connection: PlayedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nacos_grpc, "PAGE", 2)
    monkeypatch.setattr(side._catalog, "names", lambda namespace: None)
    connection.answers = {
        "NamingFuzzyWatchRequest": [LinkRefused("no right")],
        "ServiceListRequest": [{"serviceNames": ["a", "b"]}, {"serviceNames": ["c"]}],
    }
    assert side.names("public", ["G"]) == {"G@@a", "G@@b", "G@@c"}
    connection.answers = {"ServiceListRequest": [{"serviceNames": {}}, {"serviceNames": 1}]}
    assert side.names("public", ["G"]) == set()
    with pytest.raises(LinkError, match="otherwise than as a list"):
        side.names("public", ["G"])


def test_a_fuzzy_watch_that_never_ends_its_list_or_names_too_much_is_given_up(
    side: GrpcNacos, connection: PlayedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side._catalog, "names", lambda namespace: {"G@@listed"})
    monkeypatch.setattr(nacos_grpc, "NAMES_MAX", 1)
    assert side.names("public", ()) is None
    monkeypatch.setattr(nacos_grpc, "WHOLE_S", 0.0)
    assert side.names("public", ()) == {"G@@listed"}
    connection.inbox.put(names_message("FUZZY_WATCH_INIT_NOTIFY", "public@@G@@a", "public@@G@@b"))
    with pytest.raises(LinkError, match="more than 1 services"):
        side.take(0)


def test_a_push_names_its_namespace_only_if_one_alone_is_watched(side: GrpcNacos, connection: PlayedConnection) -> None:
    info = {"name": "orders", "groupName": "G", "hosts": []}
    pushed = Message("NotifySubscriberRequest", {"serviceInfo": info}, 7)
    connection.answers = {"SubscribeServiceRequest": [{"serviceInfo": info}, LinkRefused("no"), {"serviceInfo": 1}]}
    answers = side.watch([ORDERS, ("public", "G@@refused"), ("public", "G@@wrong")])
    assert [info, {}] == [answers[0], answers[2]]
    assert isinstance(answers[1], LinkRefused)
    connection.inbox.put(pushed)
    connection.inbox.put(Message("NotifySubscriberRequest", {"serviceInfo": None}, 7))
    connection.inbox.put(Message("NotifySubscriberRequest", {"serviceInfo": {"name": "unknown"}}, 7))
    assert side.take(0) == [(ORDERS, info, 7)]
    side.watch([("other", "G@@orders")])
    connection.inbox.put(pushed)
    assert sorted(side.take(0)) == [(("other", "G@@orders"), None, 7), (ORDERS, None, 7)]
    side.leave(("other", "G@@orders"))
    connection.inbox.put(pushed)
    assert side.take(0) == [(ORDERS, info, 7)]


def test_instances_are_registered_as_a_batch_and_the_last_one_ends_the_publication(
    side: GrpcNacos, connection: PlayedConnection
) -> None:
    rows = sent_rows([Instance("10.0.0.1", 80)], "here", frozenset())
    connection.answers = {"InstanceRequest": [LinkRefused("no")]}
    done = side.register([Registration(ORDERS, rows, frozenset(), False), Registration(ORDERS, {}, frozenset(), True)])
    assert [one is None for one in done] == [True, False]
    (batch, fields), (end, _) = connection.calls
    assert (batch, end) == ("BatchInstanceRequest", "InstanceRequest")
    assert (fields["namespace"], fields["groupName"], fields["serviceName"]) == ("public", "G", "orders")
    assert [one["ip"] for one in fields["instances"]] == ["10.0.0.1"]


def test_a_call_that_a_nacos_would_not_read_is_refused_here() -> None:
    one = NacosConnection(settings_of(), "127.0.0.1:1")
    [refused] = one.call_all([("BatchInstanceRequest", {"instances": "x" * SENT_BYTES_MAX})])
    assert isinstance(refused, LinkRefused)
    with pytest.raises(LinkError, match="does not answer"):
        one.check()
    one.cut()
    one.cut()
    with pytest.raises(LinkError, match="ends the connection"):
        one.check()
    with pytest.raises(LinkError):
        one.call("HealthCheckRequest", {})


def test_a_full_inbox_makes_its_reader_wait_and_an_ended_one_takes_nothing() -> None:
    inbox = Inbox(bytes_max=10)
    assert inbox.put(Message("a", {}, 100)), "one message always fits"
    assert [one.type for one in inbox.take(0)] == ["a"]
    inbox.wake()
    assert inbox.take(60.0) == []
    inbox.end("first")
    inbox.end("second")
    assert (inbox.ended, inbox.put(Message("b", {}, 1)), inbox.take(60.0)) == ("first", False, [])
