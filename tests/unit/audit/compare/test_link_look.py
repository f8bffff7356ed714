"""Looks at a link over members and a linked cluster that a test writes: what they find, and what stops them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any

import pytest

from app.rows.rows import FORMAT, encode_row, instance_row, linked_row, service_row
from app.tools.audit.client.access import Access
from app.tools.audit.compare import link_look
from app.tools.audit.compare.input import CannotCompare
from app.tools.audit.compare.link_look import LinkLook, lasting_look, look_at_link, parse_link
from app.tools.cli import main
from tests.support.fake_nacos import FakeNacos
from tests.support.tiny_server import Given, Received, refusing_address, tiny_server

ACCESS = Access(timeout_s=5.0, retries=0)
Rows = list[dict[str, Any]]


def row(ip: str, namespace: str = "prod-b", **values: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"namespace": namespace, "service": "G@@orders", "cluster": "DEFAULT", "ip": ip, "port": 80}
    base |= {"ephemeral": True, "healthy": True, "enabled": True, "weight": 1.0, "metadata": {}}
    return instance_row(**base | values)


def brought(ip: str, stale_ms: int | None = None, **values: Any) -> dict[str, Any]:
    return linked_row(row(ip, "prod", **values), "dc-b", "dc-b", 400, stale_ms)


def dump(rows: Rows, cluster: str, *links: dict[str, Any]) -> Callable[[Received], Given]:
    """Answer with a dump of these rows."""
    head = {"kind": "member", "format": FORMAT, "address": "", "members": [], "cluster": cluster, "links": links}
    own = [one for one in rows if one["kind"] == "instance"]
    services = [service_row("prod-b", "G@@orders")] if own else []
    end = {"kind": "end", "services": len(services), "instances": len(own)}
    body = b"".join(map(encode_row, [head, *services, *rows, end]))
    return lambda _: Given(200, body, {"Content-Type": "application/x-ndjson"})


def link(*servers: str, cluster: str = "dc-b", name: str = "dc-b") -> dict[str, Any]:
    patterns = {"namespaces": ["*"], "groups": ["*"], "services": ["*"]}
    told = {"name": name, "cluster": cluster, "heard_ago_ms": 700, "servers": list(servers)}
    return told | patterns | {"namespace_map": {"prod-b": "prod"}}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Linked:
    """A linked cluster of one member, and members that follow it."""

    def __init__(self, stack: ExitStack, registered: Rows, cluster: str = "dc-b") -> None:
        self.stack = stack
        self.there = stack.enter_context(tiny_server(dump(registered, cluster))).address

    def member(self, *rows: dict[str, Any], **of_link: str) -> str:
        answer = dump(list(rows), "dc-a", link(self.there, **of_link))
        return self.stack.enter_context(tiny_server(answer)).address


def look(*members: str, text: str = "dc-b") -> LinkLook:
    return look_at_link(parse_link(text, ACCESS), members, ACCESS, Event())


def test_each_kind_is_told_once_for_each_instance_and_member(stack: ExitStack) -> None:
    registered = [row("10.0.0.1"), row("10.0.0.2"), row("10.0.0.3", weight=2.0, healthy=False), row("10.0.0.4")]
    linked = Linked(stack, registered)
    right = linked.member(
        *(brought(f"10.0.0.{one}") for one in (1, 2, 4)), brought("10.0.0.3", weight=2.0, healthy=False)
    )
    wrong = linked.member(
        brought("10.0.0.2", 9_000, weight=9.0), brought("10.0.0.3"), brought("10.0.0.4"), brought("10.0.0.5")
    )
    found = look(right, wrong)
    told = [(one.kind, one.ip, one.found, one.expected) for one in found.findings]
    assert sorted(told) == [
        ("differs", "10.0.0.3", "health true, weight 1.0", "health false, weight 2.0"),
        ("extra", "10.0.0.5", "healthy weight 1.0", "absent"),
        ("missing", "10.0.0.1", "absent", "healthy weight 1.0"),
        ("stale", "10.0.0.2", "stale", "heard"),
    ]
    assert {(one.member, one.namespace) for one in found.findings} == {(wrong, "prod")}
    carried = {"link": "dc-b", "cluster": "dc-a", "origin": "dc-b", "instances": 4, "lacking": 1, "findings": 4}
    carried |= {"missing": 1, "extra": 1, "stale": 1, "differs": 1, "member": wrong, "heard_ago_ms": 700}
    assert found.carried() == carried
    assert [one.kind for one in lasting_look(found, look(right)).findings] == []
    assert found.of_services([("prod", "G@@other")]).findings == ()
    assert found.services == [("prod", "G@@orders")]


def test_members_that_cannot_be_compared_are_named(stack: ExitStack) -> None:
    linked = Linked(stack, [row("10.0.0.1")])
    nobody, other = refusing_address(), linked.member(name="dc-c")
    found = look(linked.member(brought("10.0.0.1")), nobody, other)
    assert (found.findings, set(found.absent), found.absent[other]) == ((), {nobody, other}, "it has no link 'dc-b'")
    with pytest.raises(CannotCompare, match="no member has a link 'dc-b'"):
        look(other)


def test_a_linked_cluster_that_cannot_be_judged_is_told(stack: ExitStack) -> None:
    linked, nobody = Linked(stack, [row("10.0.0.1")], cluster="dc-x"), refusing_address()
    member = linked.member(brought("10.0.0.1"))
    with pytest.raises(CannotCompare, match="belongs to the cluster 'dc-x', and the link follows 'dc-b'"):
        look(member)
    with pytest.raises(CannotCompare, match=f"{nobody} did not answer"):
        look(member, text=f"dc-b=http://{nobody}/nacos")
    never_heard = linked.member(cluster="")
    assert [one.kind for one in look(never_heard).findings] == ["missing"]
    nacos = stack.enter_context(tiny_server(FakeNacos()))
    with pytest.raises(CannotCompare, match="is not a Rollcall member"):
        look(member, text=f"dc-b={nacos.address}")


def test_the_findings_of_a_look_are_bounded(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_look, "FINDINGS_MAX", 2)
    linked = Linked(stack, [row(f"10.0.0.{number}") for number in range(4)])
    found = look(linked.member(), linked.member(brought("10.0.0.1", 5), brought("10.0.0.2", 5), brought("10.0.0.3", 5)))
    assert (len(found.findings), found.is_cut) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["watch-agreement", "--once", "--link", "="], "'=' names no link"),
        (["watch-agreement", "--once", *["--link", "a"] * 33], "33 links are over the limit of 32"),
        (["heal", "--link", "dc-b=ftp://x"], "is not the URL of a member"),
        (["heal", "--link", "dc-b", "--class", "MISSING"], "takes no findings of a night"),
        (["heal", "--link", "dc-b", "--retries", "0"], "did not answer"),
    ],
)
def test_options_that_cannot_be_used_are_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--members", refusing_address()]) == 2
    assert said in capsys.readouterr().err
