"""Users at three members that ask for them: all agree, a restart keeps them, and a right ends everywhere at once."""

import base64
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlencode

import jwt
import pytest

from app.config.auth_settings import FIRST_ADMIN_FILE
from app.naming.records.record_keys import USERS_TAG
from distro.members.mapper import DistroMapper
from tests.support.auth import (
    ADMIN,
    ADMIN_PASSWORD,
    AUTH_ON,
    PASSWORD,
    TOKEN_KEY,
    UserClient,
    make_first_admin,
    setup_secret_of,
)
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.sdk_client import SdkClient, run_client

ADMIN_PATH, USERS, ROLES, PERMISSIONS = (
    f"/v1/auth/{name}" for name in ("users/admin", "users", "roles", "permissions")
)
LIST = "/v1/ns/instance/list"
LOGIN = "/nacos/v1/auth/login"
TTL_S = 18_000
LEARNS_S = 10.0
"""Until a member has what was written at another."""
ENDS_S = 3.0
"""From a revocation at one member until another refuses the call: one send to it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with_users = ClusterProcesses(tmp_path_factory.mktemp("users"), 3, {**FAST, **AUTH_ON})
    try:
        with_users.start()
        owner = owner_of_users(with_users)
        through = next(member for member in with_users if member is not owner)
        secrets = [setup_secret_of(member.data) for member in with_users]
        assert len(set(secrets)) == 3
        refuses_all_but(through, secrets[with_users.members.index(through)], secrets)
        make_first_admin(through)
        yield with_users
    finally:
        with_users.end()
    with_users.assert_no_traceback()


def refuses_all_but(member: Member, right: str, secrets: list[str]) -> None:
    """Nobody makes an administrator without the member's own secret, whatever a proxy in front says or hides."""
    attempts = [{}, {"secret": "x"}, *({"secret": one} for one in secrets if one != right)]
    headers = ("X-Forwarded-Host", "X-Client-IP", "CF-Connecting-IP", "X-Forwarded-For")
    for attempt in attempts:
        path = f"{ADMIN_PATH}?{urlencode({'username': 'eve', 'password': PASSWORD, **attempt})}"
        for given in ({}, *({name: "127.0.0.1"} for name in headers)):
            assert member.client.call("POST", path, b"", given).status in (403, 429)
    eventually(lambda: f"secret in {member.data / FIRST_ADMIN_FILE}" in member.log_text())
    assert right not in member.log_text()


def owner_of_users(cluster: ClusterProcesses) -> Member:
    addresses = tuple(sorted(member.address for member in cluster))
    owner = DistroMapper.over(addresses[0], addresses, False).map_srv(USERS_TAG)
    return next(member for member in cluster if member.address == owner)


def client_of(member: Member, name: str, password: str = PASSWORD) -> UserClient:
    """A client of a member that has logged in, as soon as the member knows the user."""
    client = UserClient(member.address)
    eventually(lambda: client.try_login(name, password).status == 200, LEARNS_S)
    client.log_in(name, password)
    return client


def permit(boss: UserClient, name: str, resource: str, actions: str) -> None:
    """Give a user's role a permission."""
    answer = boss.ask("POST", PERMISSIONS, role=f"role-{name}", resource=resource, action=actions)
    assert answer.status == 200, answer


def reads(client: UserClient, namespace: str = "dev") -> int:
    """The status of a read in a namespace."""
    return client.ask("GET", LIST, serviceName="s", namespaceId=namespace).status


def come_to_read(client: UserClient) -> None:
    """Return when the client's member lets it read."""
    eventually(lambda: reads(client) == 200, LEARNS_S)


def make_user(cluster: ClusterProcesses, name: str, *rules: tuple[str, str]) -> UserClient:
    """A user with rules (resource, actions), made through all members in turn; return the administrator's client.

    The owner of the users executes each, wherever it is asked for: what the call before made is known to it.
    """
    boss = client_of(cluster.members[0], ADMIN, ADMIN_PASSWORD)
    assert boss.ask("POST", USERS, username=name, password=PASSWORD).status == 200
    assert boss.ask("POST", ROLES, username=name, role=f"role-{name}").status == 200
    for number, (resource, actions) in enumerate(rules):
        there = client_of(cluster.members[number % 3], ADMIN, ADMIN_PASSWORD)
        permit(there, name, resource, actions)
    return boss


def test_the_first_administrator_is_the_only_one(cluster: ClusterProcesses) -> None:
    for member in cluster:
        client_of(member, ADMIN, ADMIN_PASSWORD)
        again = member.client.call("POST", ADMIN_PATH, username="eve", password=PASSWORD)
        assert again.status == 409, again


def test_the_secret_is_gone_with_the_first_administrator(cluster: ClusterProcesses) -> None:
    for member in cluster:
        eventually(lambda member=member: not (member.data / FIRST_ADMIN_FILE).exists())  # type: ignore[misc]


def test_nobody_gets_anything_without_a_token(cluster: ClusterProcesses) -> None:
    for member in cluster:
        for method, path in (("GET", LIST), ("POST", "/v1/ns/instance"), ("PUT", "/v1/ns/instance/beat")):
            answer = member.client.call(method, path, serviceName="s", ip="10.0.0.1", port=80)
            assert (answer.status, json.loads(answer.body)["message"]) == (403, "unknown user!")


def test_members_agree_on_users_and_tokens(cluster: ClusterProcesses) -> None:
    make_user(cluster, "ann", ("dev:*:*", "rw"))
    token = client_of(cluster.members[0], "ann").token
    for member in cluster:
        client = UserClient(member.address)
        client.token = token
        come_to_read(client)
        assert reads(client, "prod") == 403
        assert client.ask("GET", USERS, pageNo=1, pageSize=9).status == 403


def test_a_write_travels_with_its_user_to_the_owner(cluster: ClusterProcesses) -> None:
    """Ephemeral and persistent, with the token in each place, and with user and password; each at each member."""
    make_user(cluster, "wim", ("dev:*:*", "rw"))
    clients = [client_of(member, "wim") for member in cluster]
    for client in clients:
        come_to_read(client)  # the owner decides, too: first each member has to know the right
    for number, client in enumerate(clients):
        owners = [cluster.service_of(owner, f"travels-{number}") for owner in cluster]
        for service in owners:
            for kind, ephemeral in (("e", "true"), ("p", "false")):
                where = {"serviceName": f"{service}", "namespaceId": "dev", "port": 80, "ephemeral": ephemeral}
                ways = {
                    "query": {"accessToken": client.token},
                    "password": {"username": "wim", "password": PASSWORD},
                }
                for way, credentials in ways.items():
                    ip = f"10.{number}.{'ep'.index(kind)}.{1 + list(ways).index(way)}"
                    answer = client.call("POST", "/v1/ns/instance", ip=ip, **where, **credentials)
                    assert answer.status == 200, (way, kind, answer)
                refused = client.call("POST", "/v1/ns/instance", ip="10.9.9.9", **where)
                assert refused.status == 403
        for header in ("Authorization", "accessToken"):
            value = f"Bearer {client.token}" if header == "Authorization" else client.token
            for service in owners:
                answer = client.call(
                    "POST",
                    f"/v1/ns/instance?serviceName={service}&namespaceId=dev&ip=10.3.3.3&port=80",
                    headers={header: value},
                )
                assert answer.status == 200, (header, answer)


def test_a_right_and_a_token_that_are_revoked_end_at_all_members(cluster: ClusterProcesses) -> None:
    boss = make_user(cluster, "rob", ("dev:*:*", "r"))
    clients = [client_of(member, "rob") for member in cluster]

    def statuses() -> set[int]:
        return {reads(one) for one in clients}

    eventually(lambda: statuses() == {200}, LEARNS_S)
    assert boss.ask("DELETE", PERMISSIONS, role="role-rob", resource="dev:*:*", action="r").status == 200
    eventually(lambda: statuses() == {403}, ENDS_S)
    assert boss.ask("POST", PERMISSIONS, role="role-rob", resource="dev:*:*", action="r").status == 200
    eventually(lambda: statuses() == {200}, ENDS_S)
    assert boss.ask("DELETE", f"{USERS}/tokens", username="rob").status == 200
    eventually(lambda: statuses() == {403}, ENDS_S)


def test_a_stream_ends_with_its_token_and_its_subscription_before_any_push(cluster: ClusterProcesses) -> None:
    boss = make_user(cluster, "sue", ("dev:*:*", "rw"))
    member = cluster.members[1]
    token = client_of(member, "sue").token
    service = "streams"

    async def main() -> None:
        async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as sdk:
            await sdk.introduce()
            where = {"namespace": "dev", "groupName": "DEFAULT_GROUP", "serviceName": service}
            body = json.dumps({**where, "subscribe": True, "clusters": ""}).encode()
            refused = await sdk.send("SubscribeServiceRequest", body, {})
            assert (refused.type, refused.json()["errorCode"]) == ("SubscribeServiceResponse", 403)
            assert (await sdk.send("SubscribeServiceRequest", body, {"accessToken": token})).json()["success"]
            added = {"serviceName": service, "namespaceId": "dev", "port": 80, "ip": "10.0.0.1"}
            assert boss.ask("POST", "/v1/ns/instance", **added).status == 200
            await sdk.wait(lambda: sdk.pushes(service))
            before_s = time.monotonic()
            assert boss.ask("DELETE", USERS, username="sue").status == 200
            await sdk.wait(lambda: sdk.ended)
            assert time.monotonic() - before_s < ENDS_S + 2.0

    run_client(main)


def statuses_of(cluster: ClusterProcesses, token: str) -> list[int]:
    """The status of a read with this token at each member."""
    found = []
    for member in cluster:
        client = UserClient(member.address)
        client.token = token
        found.append(reads(client))
    return found


def nacos_token(name: str, made_s: int, *, says_when: bool) -> str:
    """A token as real Nacos makes it with the cluster's key."""
    claims = {"sub": name, "exp": made_s + TTL_S} | ({"iat": made_s} if says_when else {})
    return jwt.encode(claims, base64.b64decode(TOKEN_KEY), "HS256")


def test_a_log_out_ends_one_token_at_all_members(cluster: ClusterProcesses) -> None:
    make_user(cluster, "lou", ("dev:*:*", "r"))
    for member in cluster:
        other, client = client_of(member, "lou"), client_of(member, "lou")
        eventually(lambda token=client.token: statuses_of(cluster, token) == [200] * 3, LEARNS_S)
        assert client.ask("POST", f"{USERS}/logout", username="lou").status == 200
        eventually(lambda token=client.token: statuses_of(cluster, token) == [403] * 3, ENDS_S)
        assert statuses_of(cluster, other.token) == [200] * 3


def test_a_revocation_ends_tokens_of_real_nacos_that_no_member_saw(cluster: ClusterProcesses) -> None:
    boss = make_user(cluster, "ned", ("dev:*:*", "r"))
    eventually(lambda: reads(client_of(cluster.members[2], "ned")) == 200, LEARNS_S)
    begin_s = int(time.time())
    eventually(lambda: time.time() >= begin_s + 1)  # they count whole seconds
    made_s = begin_s + 1
    tokens = [nacos_token("ned", made_s, says_when=says_when) for says_when in (True, False)]
    seen = nacos_token("ned", made_s + 1, says_when=True)
    eventually(lambda: statuses_of(cluster, seen) == [200] * 3, LEARNS_S)
    assert boss.ask("DELETE", f"{USERS}/tokens", username="ned").status == 200
    eventually(lambda: statuses_of(cluster, seen) == [403] * 3, ENDS_S)
    for token in tokens:
        assert statuses_of(cluster, token) == [403] * 3

    async def main() -> None:
        for member in cluster:
            async with SdkClient(int(member.address.rpartition(":")[2]) + 1_000) as sdk:
                await sdk.introduce()
                where = {"namespace": "dev", "groupName": "DEFAULT_GROUP", "serviceName": "s"}
                for token in tokens:
                    answer = await sdk.send("ServiceQueryRequest", json.dumps(where).encode(), {"accessToken": token})
                    assert answer.json()["errorCode"] == 403

    run_client(main)


def test_guesses_at_a_member_lock_nobody_out_there(cluster: ClusterProcesses) -> None:
    make_user(cluster, "gus")
    member = cluster.members[1]
    client_of(member, "gus")  # from 127.0.0.1
    for number in range(25):
        assert from_address(member, f"127.0.1.{1 + number % 21}", "gus", "wrong wrong") in (403, 429)
    before_s = time.monotonic()
    assert from_address(member, "127.0.2.1", "gus", PASSWORD) == 200
    assert time.monotonic() - before_s < 10.0
    assert client_of(member, "gus").token
    (log,) = member.folder.rglob("security.log")

    def refused() -> set[str]:
        lines = map(json.loads, log.read_text().splitlines())
        return {line["from"] for line in lines if (line["what"], line.get("user")) == ("login.refused", "gus")}

    eventually(lambda: "127.0.1.1" in refused())


def from_address(member: Member, ip: str, name: str, password: str) -> int:
    """The status of a login from one of this machine's addresses."""
    host, _, port = member.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), source_address=(ip, 0), timeout=30)
    with closing(connection):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", LOGIN, urlencode({"username": name, "password": password}), headers)
        return connection.getresponse().status


def test_a_restart_keeps_users(cluster: ClusterProcesses) -> None:
    boss = make_user(cluster, "kim", ("dev:*:*", "r"))
    made_s = int(time.time())
    assert boss.ask("DELETE", f"{USERS}/tokens", username="kim").status == 200
    revoked = nacos_token("kim", made_s, says_when=True)
    gone = client_of(cluster.members[0], "kim")
    assert gone.ask("POST", f"{USERS}/logout", username="kim").status == 200
    tokens = [client_of(member, "kim").token for member in cluster]
    for member in cluster:
        member.stop()
    for member in cluster:
        member.start()
    for member in cluster:
        member.wait_ready()
    for member, token in zip(cluster, tokens, strict=True):
        client = client_of(member, "kim")
        assert reads(client) == 200
        client.token = token
        assert reads(client) == 200
    assert statuses_of(cluster, gone.token) == statuses_of(cluster, revoked) == [403] * 3
