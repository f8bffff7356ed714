"""Streams end with the token or the right of their client, and no sooner."""

import asyncio

import pytest

from app.auth.user_rights import Resource
from app.naming.clients.client_model import ClientInfo
from app.naming.registry.operations import RegisterInstance
from app.rpc.sdk.stream_rights import RENEW_MS, StreamRights
from app.rpc.server.connections import Connection, Connections
from app.rpc.server.fuzzy_pattern import FuzzyPattern
from tests.support.auth import add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode

SERVICE = "shop@@orders"


class Host:
    """One client whose user may read and write all services of a namespace."""

    def __init__(self) -> None:
        self.node: FakeNode = node_with_users()
        add_user(self.node, "bob", ("dev:*:*", "r"), ("dev:*:*", "w"))
        self.ended: list[Connection] = []
        self.renewed: list[Connection] = []
        self.connections = Connections(self.node.wall_ms, self.node.monotonic_ms)
        self.connection = self.connections.opened("ipv4:10.9.9.9:5", False)
        self.connections.register(self.connection)
        self.node.clients.own.connect(ClientInfo(self.connection.id, "10.9.9.9", 5, "app", "v2"))
        self.log_in()
        self.watched: list[Resource] = []
        self.rights = StreamRights(
            self.node.access,
            self.connections,
            self.node.clients.table,
            self.ended.append,
            self.renewed.append,
            lambda client_id: self.watched if client_id == self.connection.id else [],
        )
        self.wall_ms = self.node.wall_ms()
        self.node.access.wall_ms = lambda: self.wall_ms

    def log_in(self) -> None:
        self.connection.session = self.node.access.session(token_of(self.node, "bob"))

    def look(self) -> bool:
        """Look at all connections; return whether the client's stays."""
        asyncio.run(self.rights.look())
        return not self.ended

    def subscribe(self, namespace: str = "dev") -> None:
        self.node.clients.subscriptions.subscribe(self.connection.id, namespace, SERVICE, "")

    def publish(self) -> None:
        self.node.clients.own.register(self.connection.id, RegisterInstance(SERVICE, "10.9.9.9", 80, namespace="dev"))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_client_with_its_rights_stays(host: Host) -> None:
    host.subscribe()
    host.publish()
    assert host.look()
    assert host.look()
    assert host.renewed == []


@pytest.mark.parametrize("what", ["tokens", "user"])
def test_a_revoked_token_ends_the_stream(host: Host, what: str) -> None:
    assert host.look()
    host.node.users.end_tokens("bob") if what == "tokens" else host.node.users.delete("bob")
    assert not host.look()
    assert host.rights.ended == 1


def test_a_lost_right_ends_the_stream_of_who_watches_by_a_pattern(host: Host) -> None:
    host.watched = [FuzzyPattern.of("dev>>shop*>>*").resource]
    assert host.look()
    host.node.users.remove_permission("role of bob", "dev:*:*", "w")
    assert host.look()
    host.node.users.remove_permission("role of bob", "dev:*:*", "r")
    assert not host.look()


@pytest.mark.parametrize(("lost", "holds"), [("r", "subscription"), ("w", "publication")])
def test_a_lost_right_ends_the_stream_of_who_used_it(host: Host, lost: str, holds: str) -> None:
    host.subscribe() if holds == "subscription" else host.publish()
    assert host.look()
    host.node.users.remove_permission("role of bob", "dev:*:*", lost)
    assert not host.look()


@pytest.mark.parametrize(("lost", "holds"), [("w", "subscription"), ("r", "publication")])
def test_a_lost_right_that_is_not_used_ends_nothing(host: Host, lost: str, holds: str) -> None:
    host.subscribe() if holds == "subscription" else host.publish()
    assert host.look()
    host.node.users.remove_permission("role of bob", "dev:*:*", lost)
    assert host.look()


def test_what_another_user_of_the_connection_subscribed_to_ends_it(host: Host) -> None:
    host.subscribe()
    assert host.look()
    add_user(host.node, "eve")
    assert host.look()
    host.connection.take_session(host.node.access.session(token_of(host.node, "eve")))
    assert not host.look()


def test_a_client_is_asked_for_a_new_token_once_and_ended_with_the_old_one(host: Host) -> None:
    session = host.connection.session
    assert session is not None
    host.wall_ms = session.end_ms - RENEW_MS
    assert host.look()
    assert host.renewed == []
    host.wall_ms += 1
    assert host.look()
    assert host.look()
    assert host.renewed == [host.connection]
    host.wall_ms = session.end_ms
    assert not host.look()


def test_a_newer_token_keeps_the_stream(host: Host) -> None:
    session = host.connection.session
    assert session is not None
    host.wall_ms = session.end_ms + 1_000
    host.connection.take_session(type(session)(session.user, session.generation, host.wall_ms + 10 * RENEW_MS))
    assert host.look()
    assert host.renewed == []


def test_clients_that_made_no_call_yet_and_those_that_went_are_left_alone(host: Host) -> None:
    host.connection.session = None
    host.node.users.end_tokens("bob")
    assert host.look()
    host.connection.session = host.node.access.session(token_of(host.node, "bob"))
    host.node.users.end_tokens("bob")
    host.connections.forget(host.connection)
    assert host.look()
