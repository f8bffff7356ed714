"""``rollcall migrate``: what it reads from each line of Nacos, and what it prints."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.config.client_config import CLIENT_VARIABLES
from app.tools.cli import main
from tests.support.fake_linked import CLUSTER_ID, MEMBERS, FakeLinked
from tests.support.fake_nacos import FakeNacos, instance
from tests.support.tiny_server import Given, refusing_address, tiny_server

ORDERS = ("public", "DEFAULT_GROUP@@orders")
CART = ("public", "shop@@cart")
LINK_APP = "rollcall-link-1.0"
SDK = {
    "clientIp": "10.0.0.7",
    "appName": "shop",
    "version": "Nacos-Go-Client:v2.3.2",
    "labels": {"module": "naming", "source": "sdk"},
}


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


@dataclass
class Both:
    """A Nacos and a linked member that answer."""

    nacos: FakeNacos
    linked: FakeLinked
    nacos_address: str
    server: str
    capsys: pytest.CaptureFixture[str]

    def run(self, step: str, *more: str) -> Ran:
        here = ["--server", self.server, "--gap", "0"] if step == "status" else []
        try:
            code = main(["migrate", step, "--nacos", self.nacos_address, *here, *more])
        except SystemExit as end:
            code = int(str(end.code))
        told = self.capsys.readouterr()
        return Ran(code, told.out, told.err)

    def status(self, *more: str) -> Ran:
        return self.run("status", *more)

    def data(self, *more: str) -> dict[str, Any]:
        return dict(json.loads(self.status("--json", *more).out))


@pytest.fixture(params=["1.4.1", "2.3.1", "3.0.3"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def both(release: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Both]:
    """A Nacos of each line; the link brought its one instance, and sent the one that is registered here."""
    for name in CLIENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    own, sent = instance("10.0.0.1"), instance("10.0.0.2", metadata={"rollcall.origin": CLUSTER_ID})
    nacos = FakeNacos(version=release, is_3=release.startswith("3"), shown={ORDERS: [own], CART: [sent]})
    nacos.subscribers = [subscriber(ORDERS, "10.0.0.7"), subscriber(ORDERS, "10.1.0.1", LINK_APP)]
    if not release.startswith("1"):
        nacos.connections = {"1": dict(SDK), "2": {**SDK, "clientIp": "10.1.0.1", "appName": LINK_APP}}
    linked = FakeLinked(local=[(*CART, "10.0.0.2")], brought=[(*ORDERS, "10.0.0.1")])
    with ExitStack() as stack:
        there = stack.enter_context(tiny_server(nacos)).address
        here = stack.enter_context(tiny_server(linked)).address
        linked.servers = [there]
        nacos.address, nacos.members = there, {there: "UP"}
        yield Both(nacos, linked, there, here, capsys)


def subscriber(name: tuple[str, str], ip: str, app: str = "shop") -> dict[str, Any]:
    fields = {"namespaceId": name[0], "serviceName": name[1], "ip": ip, "app": app}
    return {**fields, "agent": "Nacos-Go-Client:v2.3.2"}


def test_a_move_under_way_is_told_from_each_line_of_nacos(both: Both, release: str) -> None:
    ran = both.status()
    assert (ran.code, ran.err) == (1, "")
    *lines, last = ran.out.splitlines()
    assert re.fullmatch(r"services: 2, at the Nacos: 1, clients at the Nacos: 2; took [0-9]+\.[0-9] s", last)
    assert lines == [
        f"Nacos: {both.nacos_address} ({release})",
        "link:  old, direction both, heard by 2 of 2 members",
        "step:  3 of 5: move the clients",
        "",
        "SERVICE  AT NACOS  HERE  BROUGHT  SENT  SUBSCRIBERS  STATE",
        "orders          1     0        1     0            1  at the Nacos",
        "",
        "CLIENT    SERVICES  SUBSCRIPTIONS  SDK                     APPLICATION",
        "10.0.0.1         1              0  -                       -",
        "10.0.0.7         0              1  Nacos-Go-Client:v2.3.2  shop",
        "",
        "Not safe to switch off:",
        "- 1 service of 1 client still registers at the Nacos",
        "- 1 client still subscribes at the Nacos, to 1 service",
        "To do: give one client after another the addresses of this cluster, in any",
        "order.",
        "To go back: give the moved clients their old addresses. When all are back,",
        "remove the link.",
        "",
    ]
    assert both.status("-o", "name").out == "orders\n"
    assert ["shop@@cart", "0", "1", "0", "1", "0", "moved"] in [
        line.split() for line in both.status("--all").out.splitlines()
    ]


def test_it_is_safe_when_nobody_is_left_and_done_without_a_link(both: Both) -> None:
    both.nacos.shown[ORDERS], both.linked.brought = [], []
    both.nacos.subscribers = both.nacos.subscribers[1:]
    if both.nacos.connections is not None:
        del both.nacos.connections["1"]
    ran = both.status()
    assert ran.code == 0
    assert "step:  4 of 5: remove the link, switch the Nacos off" in ran.out
    assert "Safe to switch off: no client registers or subscribes at the Nacos." in ran.out
    both.linked.at = ()
    ran = both.status()
    assert (ran.code, "step:  5 of 5: switch the Nacos off" in ran.out) == (0, True)


def test_the_data_has_counts_and_differences_and_no_words(both: Both) -> None:
    both.linked.brought, both.linked.refusal = [], "metadata is too long"
    both.linked.local.append((*CART, "10.0.0.3"))
    told = both.data()
    assert (told["step"], told["safe"], told["cluster"]) == (2, False, CLUSTER_ID)
    assert [one["reason"] for one in told["obstacles"]] == ["missingHere", "missingThere", "registered", "subscribed"]
    cart = next(one for one in told["services"] if one["serviceName"] == "cart")
    assert (cart["groupName"], cart["atNacos"], cart["here"], cart["sent"], cart["moved"]) == ("shop", 0, 2, 1, False)
    assert cart["differences"] == [{"kind": "missingThere", "ip": "10.0.0.3", "port": 80, "clusterName": "DEFAULT"}]
    shown = both.status().out
    assert "- 1 instance of the Nacos is missing here: orders 10.0.0.1:80" in shown
    assert "- 1 instance of this cluster is missing at the Nacos: shop@@cart 10.0.0.3:80" in shown
    assert "- the Nacos refused: " in shown


def test_only_a_difference_of_both_looks_counts(both: Both) -> None:
    brought, both.linked.brought = both.linked.brought, []

    def second_look(path: str, _parameters: dict[str, str]) -> Given | None:
        if both.linked.dumps == 1 and "service" in path:
            both.linked.brought = brought  # it comes between the looks
        return None

    both.nacos.on_call = second_look
    assert both.data("--gap", "1ms")["step"] == 3
    assert both.linked.dumps == 2


def test_a_nacos_with_users(both: Both, tmp_path: Path) -> None:
    both.nacos.token, both.nacos.password = "told", "secret"
    ran = both.status()
    assert (ran.code, "Give --nacos-user NAME" in ran.err, ran.out) == (4, True, "")
    secret = tmp_path / "secret"
    for text, code in (("wrong", 4), ("secret", 1)):
        secret.write_text(f"{text}\n")
        ran = both.status("--nacos-user", "ann", "--nacos-password-file", str(secret))
        assert ran.code == code, ran.err
        assert text not in ran.err.replace("with this password", "")
    assert both.status("--nacos-user", "ann").code == 2
    assert both.status("--nacos-password-file", str(secret)).code == 2


def test_servers_that_do_not_answer_or_lie(both: Both) -> None:
    silent = refusing_address()
    assert both.status("--nacos", f"{silent},{both.nacos_address}").code == 1
    ran = both.status("--nacos", silent)
    assert (ran.code, ran.err.count("\n")) == (3, 1)
    assert "connection refused" in ran.err
    assert both.status("--server", silent).code == 3
    assert both.status("--server", both.nacos_address).code == 6
    assert both.status("--nacos", MEMBERS[0]).code == 2  # a member of this cluster
    assert both.status("--nacos", "http://10.0.0.1/a,http://10.0.0.2/b").code == 2
    assert both.status("--nacos", " , ").code == 2
    both.nacos.members[silent] = "UP"
    told = both.data()
    if not both.nacos.is_3:  # which collects them itself
        assert told["obstacles"][-1]["reason"] == "unknown"
        assert "connection refused" in told["obstacles"][-1]["details"][0]
    for body in (b"{}", b"[1]", b"no JSON", b'{"code":0,"data":{"pageItems":1}}', b'{"serviceList":[{"name":1}]}'):
        given = Given(200, body)
        both.nacos.on_call = lambda path, _, given=given: given if "/list" in path or "catalog" in path else None
        ran = both.status()
        assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1), ran


def test_the_link_is_the_one_with_a_server_of_the_nacos_or_the_named_one(both: Both) -> None:
    both.linked.servers = ["10.9.9.9:8848"]
    ran = both.status()
    assert "link:  none; links to other Nacos: old" in ran.out
    assert both.data("--link", "old")["step"] == 3
    assert both.status("--link", "other").code == 5


def test_more_rows_than_the_limit(both: Both) -> None:
    for number in range(3):
        both.nacos.shown["public", f"DEFAULT_GROUP@@more-{number}"] = [instance(f"10.0.1.{number}")]
    both.nacos.page_max = 2
    ran = both.status("--limit", "2")
    assert "rollcall migrate status: 2 of 4 rows; --limit 4 shows all" in ran.err
    assert len(both.data()["services"]) == 5


def test_the_plan_is_the_settings_of_the_link(both: Both, release: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    ran = both.run("plan", "--cluster-id", "dc-a", "--nacos-user", "ann", "--nacos-password-file", str(secret))
    assert ran.code == 0, ran.err
    assert [one for one in ran.out.splitlines() if not one.startswith("#")] == [
        "rollcall.cluster.id=dc-a",
        f"rollcall.link.old.servers={both.nacos_address}",
        f"rollcall.link.old.kind={'nacos1' if release.startswith('1') else 'nacos'}",
        "rollcall.link.old.direction=both",
        "rollcall.link.old.user=ann",
        "rollcall.link.old.password=...",
    ]
    assert both.run("plan", "--link", "no name").code == 2
    assert both.run("plan", "--cluster-id", "a b").code == 2


def test_each_service_of_nacos_3_is_asked_with_a_bar(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    both.status("--progress")
    assert ("2/2" in shown.getvalue()) == both.nacos.is_3
