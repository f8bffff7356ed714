"""Health digests for real Nacos members, read back as a receiver reads them."""

import json
from urllib.parse import unquote_plus

from app.naming.model.keys import datum_key
from app.naming.model.model import Instance, ServiceView
from app.naming.wire.checksum import checksum
from app.replication.instance_list_type import InstanceListAgent
from app.replication.nacos_1_names import NacosOneNames
from distro.model.types import NO_VERSION, Received
from distro.timing.clock import SystemClock
from tests.support.fake_node import SELF
from tests.support.tiny_server import Given, tiny_server
from tests.support.tiny_server import Received as Request

VIEWS = {
    ("public", "G@@a"): (Instance("10.0.0.1", 80),),
    ("public", "G@@b"): (Instance("10.0.0.2", 80, healthy=False),),
    ("100% +", "G@@a"): (Instance("10.0.0.3", 80),),
    ("public", "G@@empty"): (),
}
KEYS = [datum_key(*name) for name in VIEWS]
STATUS = "/nacos/v1/ns/service/status"


def view_of(namespace: str, name: str) -> ServiceView | None:
    instances = VIEWS.get((namespace, name))
    return None if instances is None else ServiceView(namespace, name, 1, NO_VERSION, instances, ("DEFAULT",))


def make_agent(*capabilities: str) -> InstanceListAgent:
    return InstanceListAgent(
        view_of,
        NacosOneNames(),
        self_address=SELF,
        context_path="/nacos",
        user_agent="Nacos-Server:1.4.8",
        headers={},
        codec=None,
        clock=SystemClock(),
        capabilities=lambda _: frozenset(capabilities),
        deadline=lambda _peer, _left_ms: "",
        stamp=lambda: "run 1",
        sent_ms=lambda _peer, _clock: 0,
        body_bytes_max=1_000_000,
    )


def read(body: bytes) -> tuple[str, dict[str, str]]:
    message = json.loads(unquote_plus(body.decode()))
    assert message["clientIP"] == SELF
    inner = json.loads(message["statuses"])
    return inner["namespaceId"], inner["serviceName2Checksum"]


def digest(namespace: str, name: str) -> str:
    view = view_of(namespace, name)
    assert view is not None
    return checksum(view)


def test_each_namespace_gets_a_message_with_its_services_that_have_instances() -> None:
    agent = make_agent()
    bodies = agent.status_bodies([*KEYS, "no key of ours", datum_key("public", "G@@gone")])
    agent.close()
    assert dict(map(read, bodies)) == {
        "public": {"G@@a": digest("public", "G@@a"), "G@@b": digest("public", "G@@b")},
        "100% +": {"G@@a": digest("100% +", "G@@a")},
    }


def test_real_members_get_them_after_the_checksums_and_our_own_kind_does_not() -> None:
    paths: dict[bool, list[str]] = {}
    for own_kind in (False, True):
        with tiny_server(lambda _: Given(200, b"ok")) as server:
            agent = make_agent(*(["versions"] if own_kind else []))
            assert agent.verify(server.address, dict.fromkeys(KEYS, "x"), 2_000) == Received()
            agent.close()
            paths[own_kind] = [one.target.partition("?")[0] for one in server.received]
    verified = "/nacos/v1/ns/distro/checksum"
    assert paths == {False: [verified, STATUS, STATUS], True: [verified]}


def test_a_member_that_refuses_them_was_verified_all_the_same() -> None:
    def answer(request: Request) -> Given:
        return Given(500 if request.target == STATUS else 200, b"ok")

    with tiny_server(answer) as server:
        agent = make_agent()
        assert agent.verify(server.address, dict.fromkeys(KEYS, "x"), 2_000) == Received()
        agent.close()
