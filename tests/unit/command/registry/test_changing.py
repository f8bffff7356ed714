"""Commands that change: register, deregister, update, drain, user."""

import json
import re
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from app.tools.command.registry import register_command
from tests.support.auth import ADMIN, ADMIN_PASSWORD, node_with_users
from tests.support.command_node import Commands, served_node
from tests.support.fake_node import FakeNode


def addresses(command: Commands, service: str = "orders") -> set[str]:
    return {f"{one['ip']}:{one['port']}" for one in json.loads(command("instances", service, "--json").out)}


class TestRegister:
    def test_what_it_says(self, command: Commands) -> None:
        ran = command("register", "orders", "10.0.0.1:80")
        assert (ran.code, ran.out) == (0, "registered 10.0.0.1:80 of orders in namespace public\n")
        assert "without beats it is unhealthy in 15 s and gone in 30 s" in ran.err
        ran = command("register", "orders", "10.0.0.2:80", "--persistent", "--json")
        assert json.loads(ran.out)["done"] == "registered"
        assert ran.err == ""
        assert addresses(command) == {"10.0.0.1:80", "10.0.0.2:80"}

    @pytest.mark.parametrize(
        "address", ["10.0.0.1", "10.0.0.1:", ":80", "10.0.0.1:99999", "fe80::1:80", "[nope]:80", "a b:80", "a:8x"]
    )
    def test_an_address_that_is_none(self, command: Commands, address: str) -> None:
        ran = command("register", "orders", address)
        assert ran.code == 2
        assert "is not an instance address, such as 10.0.0.7:8080" in ran.err

    def test_values_that_the_server_refuses(self, command: Commands) -> None:
        ran = command("register", "not a name!", "10.0.0.1:80")
        assert (ran.code, ran.out, ran.err.count("\n")) == (6, "", 1)
        assert "refused the request with status 400" in ran.err
        assert command("register", "orders", "10.0.0.1:80", "--metadata", "novalue").code == 2

    def test_it_beats_until_the_keyboard_ends_it(
        self, command: Commands, node: FakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                assert addresses_at(node) == {"10.0.0.1"}
                raise KeyboardInterrupt

        monkeypatch.setattr(register_command.time, "sleep", pause)
        ran = command("register", "orders", "10.0.0.1:80", "--keep")
        assert ran.code == 0
        assert ran.out.splitlines() == [
            "registered 10.0.0.1:80 of orders in namespace public",
            "deregistered 10.0.0.1:80 of orders in namespace public",
        ]
        assert pauses == [5.0] * 3
        assert addresses_at(node) == set()


def addresses_at(node: FakeNode) -> set[str]:
    view = node.naming.service_view("public", "DEFAULT_GROUP@@orders")
    return {one.ip for one in view.instances} if view else set()


class TestDeregister:
    @pytest.mark.parametrize("kind", ["--persistent", "--disabled"])
    def test_of_either_kind(self, command: Commands, kind: str) -> None:
        command("register", "orders", "10.0.0.1:80", kind)
        command("register", "orders", "10.0.0.2:80")
        assert command("deregister", "orders", "10.0.0.1:80").out.startswith("deregistered 10.0.0.1:80 of orders")
        assert addresses(command) == {"10.0.0.2:80"}

    def test_what_is_not_there(self, command: Commands) -> None:
        assert command("deregister", "orders", "10.0.0.1:80").code == 5
        command("register", "orders", "10.0.0.1:80", "--cluster", "east")
        ran = command("deregister", "orders", "10.0.0.1:80")
        assert (ran.code, ran.err.count("\n")) == (5, 1)
        assert "is not in cluster DEFAULT, but in east: give --cluster" in ran.err
        ran = command("deregister", "orders", "10.0.0.2:80")
        assert "10.0.0.2:80 of orders is not registered; there are: 10.0.0.1:80" in ran.err


class TestUpdate:
    @pytest.mark.parametrize("kind", ["--persistent", "--disabled"])
    def test_an_instance_of_either_kind(self, command: Commands, kind: str) -> None:
        command("register", "orders", "10.0.0.1:80", kind, "--metadata", "zone=a")
        ran = command(
            "update", "orders", "10.0.0.1:80", "--weight", "2.5", "--disable", "--metadata", "zone=b", "--force"
        )
        assert (ran.code, ran.out) == (0, "updated 10.0.0.1:80 of orders in namespace public\n")
        [one] = json.loads(command("instances", "orders", "--json").out)
        assert (one["weight"], one["enabled"], one["metadata"]) == (2.5, False, {"zone": "b"})
        assert command("update", "orders", "10.0.0.1:80", "--enable", "--unset", "zone", "--json").code == 0
        [one] = json.loads(command("instances", "orders", "--json").out)
        assert (one["weight"], one["enabled"], one["metadata"]) == (2.5, True, {"zone": "a"})

    def test_explain_shows_the_change(self, command: Commands) -> None:
        command("register", "orders", "10.0.0.1:80")
        command("update", "orders", "10.0.0.1:80", "--weight", "2", "--metadata", "by=ops")
        ran = command("explain", "10.0.0.1:80", "--service", "orders")
        assert "An operator changed it (weight 2, metadata by), at" in " ".join(ran.out.split())
        assert "changed by an operator: weight 2, by=ops, version" in " ".join(ran.out.split())

    def test_it_stops_where_too_few_remain(self, command: Commands) -> None:
        command("register", "orders", "10.0.0.1:80")
        ran = command("update", "orders", "10.0.0.1:80", "--disable", "--metadata", "a=1")
        assert (ran.code, "clients would get an empty list. --force does it all the same" in ran.err) == (6, True)
        ran = command("update", "orders", "10.0.0.1:80", "--disable", "--metadata", "a=1", "--force")
        assert (ran.code, "0 of 1 healthy instances in service remain" in ran.err) == (0, True)
        [one] = json.loads(command("instances", "orders", "--json").out)
        assert (one["enabled"], one["metadata"]) == (False, {"a": "1"})

    def test_what_is_not_there_or_says_nothing(self, command: Commands) -> None:
        assert command("update", "orders", "10.0.0.1:80", "--enable").code == 5
        ran = command("update", "orders", "10.0.0.1:80")
        assert (ran.code, "nothing to change" in ran.err) == (2, True)
        assert command("update", "orders", "10.0.0.1:80", "--enable", "--disable").code == 2

    def test_a_weight_that_the_server_refuses(self, command: Commands) -> None:
        command("register", "orders", "10.0.0.1:80")
        ran = command("update", "orders", "10.0.0.1:80", "--weight", "10001")
        assert (ran.code, "The weights range from 0.0 to 10000.0" in ran.err) == (6, True)


class TestDrain:
    def test_an_instance(self, command: Commands, node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
        command("register", "orders", "10.0.0.1:80")
        # A second passes at each look at the clock, so that the drain need not wait for clients that poll.
        monkeypatch.setattr(node, "monotonic_ms", count(node.now_ms, 1_000).__next__)
        ran = command("drain", "orders", "10.0.0.1:80")
        assert (ran.code, re.findall(r"^state: +(.*)", ran.out, re.MULTILINE)) == (0, ["drained"]), ran
        assert addresses(command) == set()

    def test_what_is_not_there(self, command: Commands) -> None:
        assert command("drain", "orders", "10.0.0.1:80").code == 5

    @pytest.mark.parametrize(
        "arguments",
        [(), ("orders",), ("orders", "1.2.3.4:5", "--node"), ("orders", "1.2.3.4:5", "--undo"), ("--within", "2h")],
    )
    def test_words_that_do_not_fit(self, command: Commands, arguments: tuple[str, ...]) -> None:
        assert command("drain", *arguments).code == 2

    def test_a_node(self, command: Commands) -> None:
        assert command.rows("drain", "--node")[0] == ["draining:", "yes"]
        assert json.loads(command("drain", "--node", "--status", "--json").out)["draining"] is True
        assert command.rows("drain", "--node", "--undo")[0] == ["draining:", "no"]


class TestUser:
    @pytest.fixture
    def boss(
        self, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Commands]:
        """Commands of an administrator."""
        monkeypatch.setenv("ROLLCALL_USER", ADMIN)
        monkeypatch.setenv("ROLLCALL_PASSWORD", ADMIN_PASSWORD)
        commands = Commands(capsys)
        with served_node(node_with_users()) as address:
            commands.server = address
            yield commands

    def test_from_the_first_day_to_the_last(self, boss: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ROLLCALL_NEW_PASSWORD", "correct horse")
        assert boss("user", "add", "ann", "--role", "dev").out == "created user ann with dev\n"
        assert boss("user", "permit", "dev", ":*:*", "rw").code == 0
        assert boss.rows("user", "list") == [["ann", "dev"], [ADMIN, "ROLE_ADMIN"]]
        assert boss.rows("user", "permissions") == [["dev", ":*:*", "rw"]]
        monkeypatch.setenv("ROLLCALL_USER", "ann")
        monkeypatch.setenv("ROLLCALL_PASSWORD", "correct horse")
        assert boss("register", "orders", "10.0.0.1:80").code == 0
        assert boss("user", "list").code == 4
        monkeypatch.setenv("ROLLCALL_NEW_PASSWORD", "another horse")
        assert boss("user", "password", "ann").code == 0
        assert boss("services").code == 4
        monkeypatch.setenv("ROLLCALL_USER", ADMIN)
        monkeypatch.setenv("ROLLCALL_PASSWORD", ADMIN_PASSWORD)
        assert boss("user", "grant", "ann", "ops").code == 0
        assert boss("user", "revoke", "ann", "ops").code == 0
        assert boss("user", "forbid", "dev", ":*:*", "rw").code == 0
        assert boss("user", "logout", "ann").code == 0
        assert boss("user", "remove", "ann").out == "removed user ann\n"
        assert [one["user"] for one in json.loads(boss("user", "list", "--json").out)] == [ADMIN]

    @pytest.mark.parametrize(
        "arguments",
        [
            ("remove", "nobody"),
            ("revoke", ADMIN, "norole"),
            ("forbid", "norole", ":*:*", "r"),
            ("permit", "norole", ":*:*", "r"),
            ("grant", "nobody", "dev"),
            ("logout", "nobody"),
        ],
        ids=" ".join,
    )
    def test_a_wrong_name(self, boss: Commands, arguments: tuple[str, ...]) -> None:
        ran = boss("user", *arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (5, "", 1), ran

    def test_a_new_password_has_to_come_from_somewhere(self, boss: Commands, tmp_path: Path) -> None:
        ran = boss("user", "add", "ann")
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert "give --new-password-file, or set ROLLCALL_NEW_PASSWORD" in ran.err
        assert boss("user", "add", "ann", "--new-password-file", str(tmp_path / "absent")).code == 2
        (tmp_path / "password").write_text("correct horse\n")
        assert boss("user", "add", "ann", "--new-password-file", str(tmp_path / "password")).code == 0
        assert boss("user", "add", "ann", "--new-password-file", str(tmp_path / "password")).code == 6

    def test_a_login_says_for_how_long(self, boss: Commands) -> None:
        ran = boss("user", "login")
        assert ran.out.count("\n") == 1
        assert f"a token of {ADMIN} for " in ran.err
        assert json.loads(boss("user", "login", "--json").out)["username"] == ADMIN


def test_a_login_needs_a_user_and_a_server_that_has_any(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("user", "login").code == 2
    monkeypatch.setenv("ROLLCALL_PASSWORD", "x")
    ran = command("user", "login", "--user", "ann")
    assert ran.code == 6
    assert "has no users: authentication is off" in ran.err


class TestNamespaces:
    def test_from_its_creation_to_its_end(self, command: Commands) -> None:
        assert command("namespaces", "--create", "dev", "--name", "\u5f00\u53d1").out == "created namespace dev\n"
        assert ["dev", "\u5f00\u53d1", "0", "yes"] in command.rows("namespaces")
        ran = command("namespaces", "--create", "dev")
        assert (ran.code, "namespace dev is not created: it exists" in ran.err) == (6, True)
        assert command("namespaces", "--create", "not an id!").code == 6
        command("register", "orders", "10.0.0.1:80", "--namespace", "dev")
        ran = command("namespaces", "--remove", "dev")
        assert (ran.code, "still has services (1)" in ran.err) == (6, True)
        assert command("namespaces", "--create", "qa", "--json").code == 0
        assert command("namespaces", "--remove", "qa").out == "removed namespace qa\n"
        assert command("namespaces", "--remove", "qa").code == 5
        assert command("namespaces", "--name", "x").code == 2
        assert command("namespaces", "--create", "a", "--remove", "b").code == 2


class TestOperate:
    @pytest.fixture
    def three(self, command: Commands) -> Commands:
        """A service with three instances, one of them in another cluster."""
        for address, more in (("10.0.0.1:80", ()), ("10.0.0.2:80", ()), ("10.0.0.3:80", ("--cluster", "east"))):
            assert command("register", "shop@@cart", address, "--metadata", "zone=a", *more).code == 0
        return command

    def one(self, command: Commands, address: str) -> dict[str, object]:
        listed = json.loads(command("instances", "shop@@cart", "--json").out)
        return next(one for one in listed if f"{one['ip']}:{one['port']}" == address)

    def test_out_of_service_and_back(self, three: Commands) -> None:
        ran = three("disable", "10.0.0.3:80", "--service", "shop@@cart")
        assert (ran.code, ran.out) == (0, "disabled 10.0.0.3:80 of shop@@cart in namespace public\n")
        assert "2 of 3 healthy instances in service remain, protect threshold 0" in ran.err
        assert self.one(three, "10.0.0.3:80")["enabled"] is False
        three("disable", "10.0.0.2:80", "--service", "shop@@cart")
        ran = three("disable", "10.0.0.1:80", "--service", "shop@@cart")
        assert (ran.code, ran.out, ran.err.count("\n")) == (6, "", 1)
        assert "0 of 1 healthy instances in service would remain" in ran.err
        assert "clients would get an empty list. --force does it all the same" in ran.err
        assert self.one(three, "10.0.0.1:80")["enabled"] is True
        assert three("disable", "10.0.0.1:80", "--service", "shop@@cart", "--force").code == 0
        assert three("enable", "10.0.0.3:80", "--service", "shop@@cart", "-o", "yaml").out.startswith("done: enabled")
        assert self.one(three, "10.0.0.3:80")["enabled"] is True

    def test_the_stop_at_the_protect_threshold(self, three: Commands) -> None:
        described = "groupName=shop&serviceName=cart&protectThreshold=0.7"
        url = f"http://{three.server}/nacos/v1/ns/service?{described}"
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=10).close()
        ran = three("weight", "10.0.0.1:80", "0", "--service", "shop@@cart")
        assert (ran.code, "2 of 3 healthy" in ran.err, "unhealthy ones, too" in ran.err) == (6, True, True)
        assert three("weight", "10.0.0.1:80", "0", "--service", "shop@@cart", "--force").code == 0
        assert self.one(three, "10.0.0.1:80")["weight"] == 0

    def test_weight_and_metadata(self, three: Commands) -> None:
        where = ("--service", "shop@@cart")
        assert three("weight", "10.0.0.1:80", "2.5", *where).out.startswith("set weight 2.5 of 10.0.0.1:80")
        ran = three("metadata", "10.0.0.1:80", "by=ops", "zone=\u5317", *where)
        assert ran.out.startswith("set metadata by=ops, zone=\u5317 of 10.0.0.1:80")
        found = self.one(three, "10.0.0.1:80")
        assert (found["weight"], found["metadata"]) == (2.5, {"zone": "\u5317", "by": "ops"})
        assert three("metadata", "10.0.0.1:80", "--unset", "by", "--unset", "zone", *where).code == 0
        assert self.one(three, "10.0.0.1:80")["metadata"] == {"zone": "a"}

    @pytest.mark.parametrize(
        ("line", "code", "text"),
        [
            ("disable 10.0.0.9:80 --service shop@@cart", 5, "is not registered; there are: 10.0.0.1:80"),
            ("disable 10.0.0.1:80 --service cart", 5, "did you mean shop@@cart?"),
            ("disable 10.0.0.1:80", 2, "arguments are required: --service"),
            ("enable 10.0.0.1 --service shop@@cart", 2, "is not an instance address"),
            ("weight 10.0.0.1:80 heavy --service shop@@cart", 2, "is not a weight from 0 to 10000"),
            ("weight 10.0.0.1:80 nan --service shop@@cart", 2, "is not a weight from 0 to 10000"),
            ("metadata 10.0.0.1:80 --service shop@@cart", 2, "nothing to change"),
            ("metadata 10.0.0.1:80 a=1 --unset a --service shop@@cart", 2, "a is both set and unset"),
        ],
    )
    def test_what_is_wrong(self, three: Commands, line: str, code: int, text: str) -> None:
        ran = three(*line.split())
        assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
        assert text in ran.err

    def test_an_address_in_two_clusters(self, three: Commands) -> None:
        three("register", "shop@@cart", "10.0.0.1:80", "--cluster", "east")
        ran = three("disable", "10.0.0.1:80", "--service", "shop@@cart")
        assert (ran.code, "is in DEFAULT, east: give --cluster" in ran.err) == (5, True)
        assert three("disable", "10.0.0.1:80", "--service", "shop@@cart", "--cluster", "east").code == 0
