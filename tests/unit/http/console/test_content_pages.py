"""The pages do not say that members agree while their contents differ."""

from collections.abc import Mapping
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.http.console import cluster_facts, content_sampling, member_pages
from app.http.factory import create_app
from app.naming.registry.operations import DeregisterInstance, RegisterInstance
from app.operator.content_checks import SAMPLE_MS
from app.rows.rows import BUCKETS
from distro.model.types import CAPABILITY_VERSIONS, Member, MemberState
from tests.support.fake_node import PEER, SELF, FakeNode

ORDERS = RegisterInstance("DEFAULT_GROUP@@orders", "10.0.0.1", 80)
EQUAL = {"ageMs": 900, "outcome": "delivered", "compared": "digests", "keys": 3, "newerThere": 0, "lackingThere": 0}
QUEUE = {"toSend": 0, "inFlight": 0, "toFetch": 0, "failing": False}


def engine(peer: str) -> dict[str, Any]:
    """The report of a member whose rounds, which compare versions, found all equal."""
    facts = {"state": "UP", "queue": QUEUE, "unapplied": 0, "verify": {"rollcall.records": EQUAL}}
    return {"writer": "a~1", "loading": False, "steady": True, "peers": {peer: facts}}


@pytest.fixture
def pair(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """The other one of two members, in which a test plants what it likes."""
    other = FakeNode()
    other.cluster.self_address = PEER
    node.engine_facts, other.engine_facts = lambda: engine(PEER), lambda: engine(SELF)
    node.cluster.standalone = False
    node.cluster.others = [Member(PEER, MemberState.UP, frozenset({CAPABILITY_VERSIONS}))]
    app = create_app(other)  # type: ignore[arg-type]

    def ask(_: object, __: str, path: str, parameters: Mapping[str, Any], ___: float, **____: Any) -> object:
        answer = app.test_client().get(f"/nacos{path}", query_string=dict(parameters))
        return {PEER: answer.get_json()}, []

    for module in (cluster_facts, content_sampling, member_pages):
        monkeypatch.setattr(module, "ask_members", ask)
    monkeypatch.setattr(content_sampling, "AGAIN_S", 0)
    node.naming.register(ORDERS)
    other.naming.register(ORDERS)
    return other


def sampled(node: FakeNode, client: FlaskClient, path: str = "/") -> str:
    """A page, after all parts were sampled."""
    for _ in range(BUCKETS):
        text = client.get(f"/nacos{path}").text
        node.now_ms += SAMPLE_MS
        if "Members differ" in text or ">differ<" in text:
            return text
    return text


@pytest.mark.parametrize("path", ["/", "/console/members"])
def test_what_was_compared_and_when_is_said(node: FakeNode, client: FlaskClient, pair: FakeNode, path: str) -> None:
    text = client.get(f"/nacos{path}").text
    assert "Each pair compared the versions of all its data in the last 1 s: none differ." in text
    assert "The contents of 3 % of the services were compared in the last 1.0 s: they are equal." in text


@pytest.mark.parametrize("planted", ["weight", "health", "missing"])
@pytest.mark.parametrize("path", ["/", "/console/members"])
def test_samples_find_a_difference(
    node: FakeNode, client: FlaskClient, pair: FakeNode, planted: str, path: str
) -> None:
    other = pair.naming
    if planted == "weight":
        other.register(RegisterInstance(ORDERS.service, ORDERS.ip, ORDERS.port, weight=7.0))
    elif planted == "health":
        other.set_health("public", ORDERS.service, "10.0.0.1:80:unknown:DEFAULT", False)
    else:
        node.naming.register(RegisterInstance(ORDERS.service, "10.0.0.2", 80))
    text = sampled(node, client, path)
    assert text.count("The contents of DEFAULT_GROUP@@orders (public) differ between members.") == (
        2 if path == "/" else 1
    ), "on the overview among the problems, too"
    assert "Members agree" not in text


def test_a_comparison_turns_the_summary_at_once_and_back(node: FakeNode, client: FlaskClient, pair: FakeNode) -> None:
    pair.naming.register(RegisterInstance(ORDERS.service, ORDERS.ip, ORDERS.port, weight=7.0))
    assert client.get("/nacos/console/members?compare=1").text.count(">differ<") == 1
    assert "Members differ" in client.get("/nacos/").text
    pair.naming.register(ORDERS)
    node.now_ms += SAMPLE_MS
    text = client.get("/nacos/").text
    assert "Members agree" in text, "the parts that differed are looked at first"
    assert "100 % of the services" in text


def test_the_difference_that_another_member_found_is_shown_here(
    node: FakeNode, client: FlaskClient, pair: FakeNode
) -> None:
    node.naming.register(RegisterInstance(ORDERS.service, "10.0.0.2", 80))
    pair.content_checks.suspect("public", ORDERS.service)
    assert "Members differ" in client.get("/nacos/").text


def test_a_member_that_gives_no_digests_leaves_contents_unknown(
    node: FakeNode, client: FlaskClient, pair: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_sampling, "ask_members", lambda *_, **__: ({PEER: None}, []))
    text = client.get("/nacos/").text
    assert "This member has not compared any contents yet." in text


def test_without_instances_no_contents_are_said_to_be_equal(
    node: FakeNode, client: FlaskClient, pair: FakeNode
) -> None:
    for one in (node, pair):
        one.naming.deregister(DeregisterInstance(ORDERS.service, ORDERS.ip, ORDERS.port))
    text = client.get("/nacos/console/members?compare=1").text
    assert "No member that was compared has a service with instances." in text


def test_a_difference_that_a_watch_reports_turns_the_summary_until_it_is_compared(
    node: FakeNode, client: FlaskClient, pair: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(text: str) -> int:
        return client.post("/nacos/v1/ns/operator/differences", data={"services": text}).status_code

    with monkeypatch.context() as patch:
        patch.setattr(content_sampling, "ask_members", lambda *_, **__: ({PEER: None}, []))
        assert report('{"public":["DEFAULT_GROUP@@orders","g@@unknown"],"b":5}') == 200
        assert "The contents of DEFAULT_GROUP@@orders (public) differ" in client.get("/nacos/").text
    assert report('{"public":["DEFAULT_GROUP@@orders"]}') == 200
    assert "Members agree" in client.get("/nacos/").text, "it was compared, and is equal"
    assert (report("[]"), report("x")) == (400, 400)


@pytest.mark.parametrize("column", ["address", "state", "version", "report", "failed", "run", "steady", "shoe"])
def test_members_are_sorted_by_each_column(node: FakeNode, pair: FakeNode, client: FlaskClient, column: str) -> None:
    up = client.get(f"/nacos/console/members?sort={column}").text
    down = client.get(f"/nacos/console/members?sort={column}&down=1").text
    assert ('aria-sort="ascending"' in up, 'aria-sort="descending"' in down) == ((column != "shoe"),) * 2
    if column == "address":
        table = [text[text.index("<tbody>") :] for text in (up, down)]
        assert (table[0].index(SELF) < table[0].index(PEER)) is (table[1].index(PEER) < table[1].index(SELF))
