"""DNS of real members, asked by ``dig``: each answers as its list does, over UDP and TCP, and not before it serves."""

import shutil
import socket
import subprocess
from collections.abc import Iterator

import dns.exception
import dns.message
import dns.query
import dns.rcode
import pytest

from app.config.dns_settings import PORT_OFFSET
from tests.cluster.conftest import StartCluster
from tests.support.processes import FAST, ClusterProcesses, Member, eventually
from tests.support.snippets import ROOT, snippets_of

DNS_ON = {"rollcall.dns.enabled": "true", "rollcall.dns.max.answers": "100"}
TIMEOUT_S = 20.0
TRY_S, TRIES = 1.0, 20
LONG = '{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}'
"""Metadata of an instance that stays healthy without beats, however long a busy machine takes for its test."""
needs_dig = pytest.mark.skipif(shutil.which("dig") is None, reason="needs dig, of Debian's bind9-dnsutils")


def dns_port(member: Member) -> int:
    return int(member.address.rpartition(":")[2]) + PORT_OFFSET


def dig(member: Member, *words: str) -> list[str]:
    """The lines that dig prints; one that ends in an error is a failed assertion."""
    command = ["dig", "@127.0.0.1", "-p", str(dns_port(member)), "+timeout=5", "+tries=3", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout.splitlines()


def shell(commands: str) -> str:
    """What commands of the page print."""
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def ask(member: Member, name: str, qtype: str = "A") -> dns.message.Message:
    query = dns.message.make_query(name, qtype)
    for _ in range(TRIES):
        try:
            return dns.query.udp(query, "127.0.0.1", timeout=TRY_S, port=dns_port(member))
        except dns.exception.Timeout:
            continue  # a datagram to a member that does not run yet is lost
    raise TimeoutError(f"no answer of {member} for {name}")


def listed(member: Member, service: str) -> set[str]:
    return {one["ip"] for one in member.client.hosts(service, healthyOnly="true").values()}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Three members that answer DNS."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("named"), 3, {**FAST, **DNS_ON})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
    cluster.assert_no_traceback()


@needs_dig
class TestDig:
    def test_each_member_answers_with_what_it_lists(self, named: ClusterProcesses) -> None:
        for number in range(3):
            named.members[number].client.register("dig-orders", f"10.1.0.{number}", 8_080 + number, metadata=LONG)
        ips = {f"10.1.0.{number}" for number in range(3)}
        for member in named:
            eventually(lambda member=member: listed(member, "dig-orders") == ips)  # type: ignore[misc]
            assert set(dig(member, "+short", "dig-orders.rollcall")) == ips
            assert set(dig(member, "+short", "DIG-orders.default_group.public.rollcall", "A")) == ips
            targets = dig(member, "+short", "dig-orders.rollcall", "SRV")
            assert sorted(one.split()[:3] for one in targets) == [["0", "100", str(8_080 + n)] for n in range(3)]
            for one in targets:
                (ip,) = dig(member, "+short", one.split()[3])
                assert ip in ips

    def test_what_is_too_large_comes_over_tcp(self, named: ClusterProcesses) -> None:
        member = named.members[0]
        for number in range(90):
            member.client.register("dig-many", f"10.2.0.{number}")
        assert "flags: qr aa tc rd" in "\n".join(dig(member, "+ignore", "dig-many.rollcall"))
        lines = dig(member, "dig-many.rollcall")
        assert sum("\tA\t" in one for one in lines) == 90
        assert any("(TCP)" in one for one in lines)

    def test_an_address_that_came_over_tcp_gets_whole_answers_over_udp(self, named: ClusterProcesses) -> None:
        member, other = named.members[:2]
        for number in range(40):
            member.client.register("dig-proven", f"10.5.0.{number}")
        eventually(lambda: len(listed(other, "dig-proven")) == 40)
        own = ("-b", "127.0.0.77", "dig-proven.rollcall")
        cut = dig(other, "+ignore", "+qr", *own)
        assert "flags: qr aa tc rd" in "\n".join(cut)
        asked, answered = (
            int(one.rpartition(":")[2]) for one in cut if one.startswith((";; QUERY SIZE", ";; MSG SIZE"))
        )
        assert answered + 28 <= 3 * (asked + 28)
        assert any("(TCP)" in one for one in dig(other, *own))
        whole = dig(other, *own)
        assert any("(UDP)" in one for one in whole)
        assert sum("\tA\t" in one for one in whole) == 40

    def test_several_queries_over_one_connection(self, named: ClusterProcesses) -> None:
        member = named.members[0]
        member.client.register("dig-tcp", "10.3.0.1")
        words = ("+short", "+keepopen", "+tcp", "dig-tcp.rollcall", "ns.rollcall")
        assert dig(member, *words) == ["10.3.0.1", "127.0.0.1"]

    def test_what_dig_says_of_names_without_records(self, named: ClusterProcesses) -> None:
        member = named.members[0]
        member.client.register("dig-both", "10.4.0.1")
        member.client.register("dig.both", "10.4.0.2")
        for name, status in (("none.rollcall", "NXDOMAIN"), ("dig-both.rollcall", "NOERROR"), ("a.test", "REFUSED")):
            assert f"status: {status}" in "\n".join(dig(member, name))
        assert "use the exact form of the name" in "\n".join(dig(member, "dig-both.rollcall"))

    def test_the_commands_of_the_page(self, named: ClusterProcesses) -> None:
        member = named.members[0]
        asking, exact = [one.text for one in snippets_of(ROOT / "docs" / "dns.md") if one.run_by]
        asking = asking.partition("\n")[2]  # the member runs already
        here = asking.replace("127.0.0.1:8848", member.address).replace("8853", str(dns_port(member)))
        told = shell(here)
        assert told.splitlines()[-1] == "10.0.0.7"
        assert told.count("10.0.0.7") > 2
        assert "8080" in told
        member.client.register("Orders", "10.6.0.1")
        assert "10.6.0.1" in shell(exact.replace("8853", str(dns_port(member))))


def test_an_instance_that_leaves_leaves_every_answer(named: ClusterProcesses) -> None:
    first = named.members[0]
    first.client.register("leaving", "10.5.0.1")
    first.client.register("leaving", "10.5.0.2")
    for member in named:
        eventually(lambda member=member: len(ask(member, "leaving.rollcall").answer[0]) == 2)  # type: ignore[misc]
    named.members[1].client.deregister("leaving", "10.5.0.1")
    for member in named:
        eventually(lambda member=member: len(ask(member, "leaving.rollcall").answer[0]) == 1)  # type: ignore[misc]
        assert listed(member, "leaving") == {"10.5.0.2"}


def test_the_queries_are_in_the_metrics(named: ClusterProcesses) -> None:
    member = named.members[2]
    before = member.client.metrics()["dnsUnknown"]
    assert ask(member, "counted.rollcall").rcode() == dns.rcode.NXDOMAIN
    assert member.client.metrics()["dnsUnknown"] == before + 1
    page = eventually(lambda: member.client.call("GET", "/metrics").body)
    assert b'rollcall_dns_answers_total{result="unknown",type="A"}' in page


def test_packets_of_any_bytes_are_not_in_the_log(named: ClusterProcesses) -> None:
    member = named.members[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for number in range(300):
            client.sendto(bytes(range(number % 256)) * 2, ("127.0.0.1", dns_port(member)))
    assert ask(member, "rollcall", "SOA").answer
    assert member.client.metrics()["dnsFailed"] == 0


def test_a_member_that_starts_alone_fails_and_never_says_there_is_none(make_cluster: StartCluster) -> None:
    cluster = make_cluster(2, {**FAST, **DNS_ON})
    cluster.start()
    first, second = cluster.members
    first.client.register("kept", "10.6.0.1")
    eventually(lambda: listed(second, "kept") == {"10.6.0.1"})
    second.pause()  # the other cannot load from it
    try:
        first.kill_all()
        first.start()

        def is_starting() -> bool:
            return ask(first, "kept.rollcall").rcode() == dns.rcode.SERVFAIL

        eventually(is_starting)
    finally:
        second.resume()
    codes = set()

    def answers() -> bool:
        reply = ask(first, "kept.rollcall")
        codes.add(reply.rcode())
        return bool(reply.answer)

    eventually(answers)
    assert codes <= {dns.rcode.SERVFAIL, dns.rcode.NOERROR}


def test_a_drained_member_sends_resolvers_to_another(make_cluster: StartCluster) -> None:
    cluster = make_cluster(2, {**FAST, **DNS_ON})
    cluster.start()
    first, second = cluster.members
    first.client.register("drained", "10.7.0.1")
    eventually(lambda: bool(ask(second, "drained.rollcall").answer))
    first.client.call("PUT", "/v1/ns/operator/drain", enabled="true")
    eventually(lambda: ask(first, "drained.rollcall").rcode() == dns.rcode.SERVFAIL)
    assert ask(second, "drained.rollcall").answer
