"""What a member tells of its changes' way to the others: applied, pushed, stuck, and by whom."""

import json
from contextlib import closing
from typing import Any

from tests.cluster.conftest import StartCluster
from tests.cluster.test_push import subscribe
from tests.support.listener import Listener
from tests.support.processes import Member, eventually

NOT_DOWN = {"rollcall.distro.silentDownMs": "600000"}
"""A member that is silent stays SUSPICIOUS for as long as a test runs."""


def page(member: Member) -> dict[str, Any]:
    answer = member.client.call("GET", "/v1/ns/operator/distro")
    assert answer.status == 200
    return json.loads(answer.body)


def peer_facts(member: Member, peer: Member) -> dict[str, Any]:
    return page(member)["peers"][peer.address]


def counts(member: Member, peer: Member, what: str) -> int:
    return int(peer_facts(member, peer)["convergence"][what]["count"])


def test_the_writer_learns_when_its_changes_are_applied_and_pushed(make_cluster: StartCluster) -> None:
    cluster = make_cluster()
    cluster.start()
    writer, *others = list(cluster)
    service = cluster.service_of(writer, "traced")
    assert writer.client.register(service, "10.0.0.1").status == 200
    eventually(lambda: all(counts(writer, peer, "applied") for peer in others))
    assert [counts(writer, peer, "pushed") for peer in others] == [0, 0], "nobody subscribes"
    with closing(Listener()) as one, closing(Listener()) as other:
        for member, listener in zip(others, (one, other), strict=True):
            subscribe(member, listener, service)
        assert writer.client.register(service, "10.0.0.2").status == 200
        # A push comes after the answer to the send: the next answer tells of it, at the latest that to a verify round.
        eventually(lambda: all(counts(writer, peer, "pushed") for peer in others))
    for peer in others:
        facts = peer_facts(writer, peer)
        assert (facts["unapplied"], facts["oldestUnapplied"]) == (0, None)
        assert 0 < facts["convergence"]["applied"]["p50Ms"] < 10_000
        assert facts["verify"]
    # A member that passed the write on has it by the answer, and counts as any other.
    passed = cluster.service_of(others[0], "passed")
    before = counts(others[0], writer, "applied")
    assert writer.client.register(passed, "10.0.0.3").status == 200
    eventually(lambda: counts(others[0], writer, "applied") > before)


def test_a_change_that_a_member_does_not_get_grows_old_and_is_told_of(make_cluster: StartCluster) -> None:
    cluster = make_cluster(settings=NOT_DOWN)
    cluster.start()
    writer, cut, well = list(cluster)
    service = cluster.service_of(writer, "stuck")
    cut.pause()
    try:
        assert writer.client.register(service, "10.0.0.1").status == 200
        eventually(lambda: f"{cut.address} has lacked a change of" in writer.log_text())
        oldest = peer_facts(writer, cut)["oldestUnapplied"]
        assert (oldest["key"].rpartition("@@")[2], oldest["cause"]) == (service, "failing")
        assert oldest["ageMs"] >= 3_000
        eventually(lambda: peer_facts(writer, cut)["oldestUnapplied"]["ageMs"] > oldest["ageMs"] + 1_000)
        assert peer_facts(writer, well)["oldestUnapplied"] is None, "the other member has it"
        assert f"{well.address} has lacked" not in writer.log_text()
    finally:
        cut.resume()
    eventually(lambda: peer_facts(writer, cut)["oldestUnapplied"] is None)
    eventually(lambda: f"{cut.address} has every change" in writer.log_text())
    assert writer.log_text().count(f"{cut.address} has lacked a change of") == 1, "once for the cause"
    assert peer_facts(writer, cut)["convergence"]["applied"]["p99Ms"] >= 2_500, "it took as long as the pause"
