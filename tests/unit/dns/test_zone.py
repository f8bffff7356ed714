"""Answers, read by dnspython: records of instances, names without any, truncation, and what is refused."""

from random import Random

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from app.dns.resource_records import srv_weights
from app.dns.service_addresses import answered_for, some_answered_for
from app.naming.wire.service_info import Variant
from tests.support.dns_zone import CLIENT, GROUP, TTL_S, DnsBed, is_truncated, reasons, records

LIST = Variant("", True, False, True, 0)


@pytest.fixture
def bed() -> DnsBed:
    bed = DnsBed()
    bed.register("orders", "10.0.0.1", 8080)
    bed.register("orders", "10.0.0.2", 8081, weight=2.5)
    bed.register("orders", "2001:db8::1", 8082)
    return bed


def has_soa(reply: dns.message.Message) -> bool:
    """Whether the answer says for how long there is none."""
    (soa,) = records(reply.authority)
    assert (soa.mname.to_text(), soa.minimum, reply.authority[0].ttl) == ("ns.rollcall.", TTL_S, TTL_S)
    return not reply.answer


class TestAddresses:
    def test_a_and_aaaa(self, bed: DnsBed) -> None:
        reply = bed.ask("orders")
        assert sorted(bed.ips("orders")) == ["10.0.0.1", "10.0.0.2"]
        assert bed.ips("orders", "AAAA") == ["2001:db8::1"]
        assert reply.answer[0].ttl == TTL_S
        assert reply.flags & dns.flags.AA
        assert not reply.flags & dns.flags.RA

    @pytest.mark.parametrize("ip", ["[fe80::1]", "FE80:0::1", "fe80::1%eth0", "[fe80:0:0:0:0:0:0:1]"])
    def test_an_address_is_known_in_every_spelling(self, ip: str) -> None:
        bed = DnsBed()
        bed.register("orders", ip, 8080)
        bed.register("orders", "::ffff:10.0.0.1", 8081)
        assert bed.ips("orders", "AAAA") == ["fe80::1"]
        assert bed.ips("orders") == ["10.0.0.1"]
        targets = {one.port: one.target.to_text() for one in records(bed.ask("orders", "SRV").answer)}
        assert bed.ips(targets[8080], "AAAA") == ["fe80::1"]
        assert bed.ips(targets[8081]) == ["10.0.0.1"]

    def test_the_case_of_the_question_is_kept(self, bed: DnsBed) -> None:
        reply = bed.ask("oRdErS.DEFAULT_GROUP.Public")
        assert reply.question[0].name.to_text() == "oRdErS.DEFAULT_GROUP.Public.rollcall."
        assert reply.answer

    def test_an_address_of_several_ports_is_answered_once(self, bed: DnsBed) -> None:
        bed.register("orders", "10.0.0.1", 9090)
        assert sorted(bed.ips("orders")) == ["10.0.0.1", "10.0.0.2"]

    def test_a_domain_of_several_labels(self) -> None:
        bed = DnsBed(domain="svc.example.com")
        bed.register("orders", "10.0.0.1")
        assert bed.ips("orders") == ["10.0.0.1"]
        assert bed.ask("orders.example.com.").rcode() == dns.rcode.REFUSED

    def test_each_instance_is_first_as_often(self, bed: DnsBed) -> None:
        firsts = [bed.ips("orders")[0] for _ in range(10)]
        assert firsts.count("10.0.0.1") == 5

    @pytest.mark.parametrize("count", [7, 40])
    def test_each_of_more_instances_than_an_answer_takes_gets_its_share(self, count: int) -> None:
        bed = DnsBed(answers_max=5)
        for number in range(count):
            bed.register("orders", f"10.0.0.{number}")
        seen = [ip for _ in range(count) for ip in bed.ips("orders")]
        assert {seen.count(one) for one in seen} == {5}
        assert len(set(seen)) == count


class TestWhoIsAnsweredFor:
    def test_no_unhealthy_no_disabled_and_none_without_weight(self, bed: DnsBed) -> None:
        bed.register("orders", "10.0.0.3", healthy=False)
        bed.register("orders", "10.0.0.4", enabled=False)
        bed.register("orders", "10.0.0.5", weight=0)
        assert sorted(bed.ips("orders")) == ["10.0.0.1", "10.0.0.2"]

    @pytest.mark.parametrize("threshold", [0.0, 0.5, 0.8])
    @pytest.mark.parametrize("healthy", [0, 1, 2, 3])
    def test_the_same_as_in_a_list_of_healthy_instances(self, threshold: float, healthy: int) -> None:
        bed = DnsBed()
        bed.describe("orders", threshold)
        for number in range(4):
            bed.register("orders", f"10.0.0.{number}", healthy=number < healthy, enabled=number != 2)
        answer = bed.naming.list_answer("public", GROUP + "orders", LIST)
        assert answer is not None
        listed = [f"10.0.0.{number}" for number in range(4) if b'"10.0.0.%d"' % number in answer.plain(0)]
        assert sorted(bed.ips("orders")) == listed

    def test_a_change_is_in_the_next_answer(self, bed: DnsBed) -> None:
        bed.ips("orders")
        bed.deregister("orders", "10.0.0.2", 8081)
        assert bed.ips("orders") == ["10.0.0.1"]
        bed.register("orders", "10.0.0.9")
        assert sorted(bed.ips("orders")) == ["10.0.0.1", "10.0.0.9"]

    def test_a_large_service_is_answered_for_by_some_and_a_second_later_by_others(self) -> None:
        bed = DnsBed(answers_max=256)
        for number in range(1_500):
            bed.register("orders", f"10.0.{number // 250}.{number % 250}")
        first = {ip for _ in range(20) for ip in records(bed.ask("orders", tcp=True).answer)}
        assert len(first) == 500
        bed.now_s += 2
        second = {ip for _ in range(20) for ip in records(bed.ask("orders", tcp=True).answer)}
        assert first != second
        assert not is_truncated(bed.ask("orders", tcp=True))
        # Each address is known, whether it is among those.
        assert bed.ips("0a000001.orders.default-group.public") == ["10.0.0.1"]

    @pytest.mark.parametrize("threshold", [0.0, 0.6])
    @pytest.mark.parametrize("healthy", [0, 3, 1_100])
    def test_a_large_service_follows_the_same_rule(self, threshold: float, healthy: int) -> None:
        bed = DnsBed()
        bed.describe("orders", threshold)
        for number in range(2_200):
            bed.register("orders", f"10.0.{number // 250}.{number % 250}", healthy=number < healthy)
        view = bed.naming.service_view("public", GROUP + "orders")
        assert view is not None
        some = {one.ip for one in some_answered_for(view, Random(2))}
        everyone = {one.ip for one in answered_for(view)}
        assert some
        assert some <= everyone
        assert len(everyone) == (2_200 if healthy / 2_200 <= threshold else healthy)


class TestSrv:
    def test_ports_weights_and_targets_with_their_addresses(self, bed: DnsBed) -> None:
        reply = bed.ask("orders", "SRV")
        found = {one.port: one for one in records(reply.answer)}
        assert {port: one.weight for port, one in found.items()} == {8080: 100, 8081: 250, 8082: 100}
        assert found[8080].target.to_text() == "0a000001.orders.default-group.public.rollcall."
        added = {one.name: one[0].to_text() for one in reply.additional}
        assert {port: added[one.target] for port, one in found.items()} == {
            8080: "10.0.0.1",
            8081: "10.0.0.2",
            8082: "2001:db8::1",
        }

    def test_the_address_of_each_target_can_be_asked_for(self, bed: DnsBed) -> None:
        for one in records(bed.ask("orders", "SRV").answer):
            answered = [bed.ips(one.target.to_text(), qtype) for qtype in ("A", "AAAA")]
            assert sum(map(len, answered)) == 1
            gone = one.target.to_text().replace("orders", "others")
            assert bed.ask(gone).rcode() == dns.rcode.NXDOMAIN
        assert bed.ask("0a0000ff.orders.default-group.public").rcode() == dns.rcode.NXDOMAIN
        assert has_soa(bed.ask("0a000001.orders.default-group.public", "AAAA"))

    @pytest.mark.parametrize("name", ["_http._tcp.orders", "_x._udp.orders.default_group.public"])
    def test_the_names_of_rfc_2782(self, bed: DnsBed, name: str) -> None:
        assert len(list(records(bed.ask(name, "SRV").answer))) == 3
        assert has_soa(bed.ask(name, "A"))
        above = name.partition(".")[2]
        assert bed.ask(above).rcode() == dns.rcode.NOERROR
        assert has_soa(bed.ask(above, "SRV"))

    def test_an_instance_with_a_host_name_is_a_target_of_its_own(self, bed: DnsBed) -> None:
        bed.register("shop", "Shop.example.com", 443)
        bed.register("shop", "no_host name", 444)
        (one,) = records(bed.ask("shop", "SRV").answer)
        assert (one.target.to_text(), one.port) == ("shop.example.com.", 443)
        assert has_soa(bed.ask("shop"))

    def test_weights_keep_their_proportion_when_hundredths_do_not_fit(self) -> None:
        bed = DnsBed()
        bed.register("orders", "10.0.0.1", weight=10_000)
        bed.register("orders", "10.0.0.2", weight=5_000)
        bed.register("orders", "10.0.0.3", weight=0.01)
        assert sorted(one.weight for one in records(bed.ask("orders", "SRV").answer)) == [1, 32_768, 65_535]

    def test_a_weight_beyond_all_that_another_member_sent(self) -> None:
        assert srv_weights([float("inf"), 10_000.0, 1.0]) == [65_535, 65_535, 7]

    def test_targets_whose_names_would_be_too_long_have_exact_ones(self) -> None:
        bed = DnsBed(domain=".".join(["d" * 48, "e" * 48]))
        group, service = "g" * 63, "s" * 63
        bed.register(service, "2001:db8::1", group=group, namespace="n" * 63)
        index_labels = bed.index.unique_labels("n" * 63, f"{group}@@{service}", is_short=False)
        name = b".".join(index_labels).decode()
        (one,) = records(bed.ask(name, "SRV").answer)
        assert bed.ips(one.target.to_text(), "AAAA") == ["2001:db8::1"]

    def test_targets_follow_the_names_that_are_unique(self, bed: DnsBed) -> None:
        before = {one.target for one in records(bed.ask("orders", "SRV").answer)}
        bed.register("Orders", "10.9.9.9")
        exact = bed.index.unique_labels("public", GROUP + "orders")[0].decode()
        after = {one.target for one in records(bed.ask(exact, "SRV").answer)}
        assert before.isdisjoint(after)
        assert all(bed.ask(one.to_text(), "ANY").rcode() == dns.rcode.NOERROR for one in after)


class TestNoRecords:
    @pytest.mark.parametrize(
        "name", ["nope", "orders.g", "orders.default_group.none", "a.b.c.d", "a.b.c.d.e", "_tcp.x"]
    )
    def test_an_unknown_name(self, bed: DnsBed, name: str) -> None:
        reply = bed.ask(name)
        assert reply.rcode() == dns.rcode.NXDOMAIN
        assert has_soa(reply)

    @pytest.mark.parametrize("name", ["public", "default_group", "default_group.public", "_tcp.orders", ""])
    def test_a_name_that_has_names_below_it_exists(self, bed: DnsBed, name: str) -> None:
        reply = bed.ask(name)
        assert reply.rcode() == dns.rcode.NOERROR
        assert has_soa(reply)

    @pytest.mark.parametrize("qtype", ["TXT", "MX", "HTTPS", "NS", "SOA", "CNAME"])
    def test_a_type_that_the_name_has_not(self, bed: DnsBed, qtype: str) -> None:
        reply = bed.ask("orders", qtype)
        assert reply.rcode() == dns.rcode.NOERROR
        assert has_soa(reply)

    def test_a_service_without_healthy_instances_exists(self) -> None:
        bed = DnsBed()
        bed.describe("empty")
        bed.register("ill", "10.0.0.1", healthy=False)
        bed.register("ill", "10.0.0.2", enabled=False)
        for name in ("empty", "ill"):
            for qtype in ("A", "AAAA", "SRV"):
                reply = bed.ask(name, qtype)
                assert reply.rcode() == dns.rcode.NOERROR
                assert has_soa(reply)

    def test_a_name_that_two_services_are_written_like_says_so(self, bed: DnsBed) -> None:
        bed.register("Orders", "10.9.9.9")
        for name in ("orders", "_x._tcp.orders", "0a000001.orders.default-group.public"):
            reply = bed.ask(name)
            assert reply.rcode() == dns.rcode.NOERROR
            assert has_soa(reply)
            assert "exact form" in reasons(reply)[0]
        assert bed.stats.counters()["dns_ambiguous"] == 3


class TestTheDomainItself:
    def test_its_server(self, bed: DnsBed) -> None:
        reply = bed.ask("", "NS")
        assert [one.to_text() for one in records(reply.answer)] == ["ns.rollcall."]
        assert [one.to_text() for one in records(reply.additional)] == ["198.51.100.1"]
        assert bed.ips("ns") == ["198.51.100.1"]

    def test_a_server_whose_address_is_not_known(self) -> None:
        bed = DnsBed(own_ip="")
        assert not bed.ask("", "NS").additional
        assert has_soa(bed.ask("ns"))

    def test_its_soa(self, bed: DnsBed) -> None:
        (soa,) = records(bed.ask("", "SOA").answer)
        assert (soa.serial, soa.minimum, soa.rname.to_text()) == (4_711, TTL_S, "hostmaster.rollcall.")

    @pytest.mark.parametrize("name", ["", "orders", "ns", "0a000001.orders.default-group.public"])
    def test_all_records_are_not_told(self, bed: DnsBed, name: str) -> None:
        reply = bed.ask(name, "ANY")
        assert [one.rdtype for one in reply.answer] == [dns.rdatatype.HINFO]


class TestRefused:
    @pytest.mark.parametrize("name", ["example.com.", "rollcall.example.", ".", "com."])
    def test_other_domains(self, bed: DnsBed, name: str) -> None:
        reply = bed.ask(name)
        assert reply.rcode() == dns.rcode.REFUSED
        assert not reply.flags & dns.flags.AA

    def test_a_label_that_only_ends_like_the_domain(self, bed: DnsBed) -> None:
        assert bed.ask("orders\\008rollcall.").rcode() == dns.rcode.REFUSED

    def test_transfers_and_other_classes(self, bed: DnsBed) -> None:
        assert bed.ask("", "AXFR").rcode() == dns.rcode.REFUSED
        query = dns.message.make_query("orders.rollcall", "TXT", "CH")
        packet = bed.responder.over_udp(query.to_wire(), "10.0.0.1")
        assert packet is not None
        assert dns.message.from_wire(packet).rcode() == dns.rcode.REFUSED


def test_a_node_that_does_not_serve_says_so_and_never_that_there_is_none(bed: DnsBed) -> None:
    bed.serves = False
    for name in ("orders", "nope", "", "example.com."):
        reply = bed.ask(name)
        assert reply.rcode() == dns.rcode.SERVFAIL
        assert reasons(reply) == ["this member does not serve now"]
        assert not reply.authority
    assert bed.stats.counters()["dns_not_ready"] == 4


class TestSize:
    def filled(self, count: int, answers_max: int = 256) -> DnsBed:
        bed = DnsBed(answers_max=answers_max)
        for number in range(count):
            bed.register("orders", f"10.0.0.{number}", 80)
        return bed

    @pytest.mark.parametrize("qtype", ["A", "SRV"])
    @pytest.mark.parametrize("edns", [None, 512, 1_232, 4_096])
    def test_what_does_not_fit_is_cut_and_said_to_be(self, qtype: str, edns: int | None) -> None:
        bed = self.filled(100)
        reply = bed.ask("orders", qtype, edns=edns)
        assert is_truncated(reply)
        assert 0 < len(list(records(reply.answer))) < 100
        assert len(list(records(bed.ask("orders", qtype, tcp=True).answer))) == 100

    def test_no_answer_over_udp_is_larger_than_fits_any_path(self) -> None:
        bed = self.filled(100)
        query = dns.message.make_query("orders.rollcall", "A", use_edns=0, payload=4_096).to_wire()
        packet = bed.responder.over_udp(query, CLIENT)
        assert packet is not None
        assert 1_200 < len(packet) <= 1_232

    def test_addresses_of_targets_that_do_not_fit_are_left_out_without_a_word(self) -> None:
        reply = self.filled(100, answers_max=16).ask("orders", "SRV")
        assert not is_truncated(reply)
        assert len(list(records(reply.answer))) == 16
        assert 0 < len(reply.additional) < 16


STRANGER = "203.0.113.9"


class TestForgedAddresses:
    """An answer over UDP goes to whatever address a datagram names."""

    @pytest.mark.parametrize("edns", [None, 512, 1_232, 4_096])
    @pytest.mark.parametrize(
        ("name", "qtype"),
        [("orders", kind) for kind in ("A", "AAAA", "SRV", "ANY", "SOA", "TXT")]
        + [("", kind) for kind in ("A", "NS", "SOA", "ANY")]
        + [("ns", "A"), ("_http._tcp.orders", "SRV"), ("none-" + "x" * 50, "A"), ("a.", "A"), ("three", "A")],
    )
    def test_an_address_gets_three_times_what_it_sent(self, name: str, qtype: str, edns: int | None) -> None:
        bed = DnsBed(answers_max=256)
        for number in range(100):
            bed.register("orders", f"10.0.0.{number}", 80)
            bed.register("orders", f"2001:db8::{number:x}", 80)
        for service in ("three", "Three"):
            bed.register(service, "10.0.0.1")
        whole = name if name.endswith(".") else f"{name}.rollcall." if name else "rollcall."
        query = dns.message.make_query(whole, qtype, use_edns=False if edns is None else 0, payload=edns or 0).to_wire()
        for _ in range(3):
            answer = bed.responder.over_udp(query, STRANGER)
            assert answer is not None
            assert len(answer) + 28 <= 3 * (len(query) + 28)
            assert dns.message.from_wire(answer).id == dns.message.from_wire(query).id

    def test_it_gets_all_after_a_query_over_tcp_for_an_hour(self) -> None:
        bed = DnsBed(answers_max=256)
        for number in range(60):
            bed.register("orders", f"10.0.0.{number}", 80)

        def answered() -> int:
            return len(list(records(bed.ask("orders", client=STRANGER).answer)))

        first = bed.ask("orders", client=STRANGER)
        assert is_truncated(first), "the client comes back over TCP"
        assert 0 < answered() < 15
        assert len(list(records(bed.ask("orders", tcp=True, client=STRANGER).answer))) == 60
        assert answered() == 60
        assert is_truncated(bed.ask("orders", client="203.0.113.8")), "another address proves nothing for this one"
        bed.now_s += 3_601
        assert answered() < 15

    def test_what_is_malformed_over_tcp_proves_nothing(self) -> None:
        bed = DnsBed(answers_max=256)
        for number in range(60):
            bed.register("orders", f"10.0.0.{number}", 80)
        bed.responder.over_tcp(b"x" * 40, STRANGER)
        assert is_truncated(bed.ask("orders", client=STRANGER))

    def test_a_short_answer_needs_no_proof(self) -> None:
        bed = DnsBed()
        for number in range(6):
            bed.register("orders", f"10.0.0.{number}", 80)
        for edns in (None, 1_232):
            reply = bed.ask("orders", edns=edns, client=STRANGER)
            assert not is_truncated(reply)
            assert len(list(records(reply.answer))) == 6


class TestRate:
    def test_over_udp_some_beyond_it_are_sent_to_tcp(self) -> None:
        bed = DnsBed(rate=10)
        bed.register("orders", "10.0.0.1")
        query = dns.message.make_query("orders.rollcall", "A").to_wire()
        answers = [bed.responder.over_udp(query, "10.0.0.1") for _ in range(20)]
        assert answers.count(None) == 5
        beyond = [dns.message.from_wire(one) for one in answers[10:] if one is not None]
        assert all(is_truncated(one) and not one.answer for one in beyond)
        assert bed.ask("orders", tcp=True, client="10.0.0.1").answer
        assert bed.stats.limited == 10

    def test_over_tcp_the_connection_is_closed(self) -> None:
        bed = DnsBed(rate=10)
        query = dns.message.make_query("orders.rollcall", "A").to_wire()
        answers = [bed.responder.over_tcp(query, "10.0.0.1") for _ in range(11)]
        assert answers.count(None) == 1


def test_edns_of_a_version_to_come(bed: DnsBed) -> None:
    query = dns.message.make_query("orders.rollcall", "A", use_edns=1).to_wire()
    packet = bed.responder.over_udp(query, "10.0.0.1")
    assert packet is not None
    reply = dns.message.from_wire(packet)
    assert (reply.rcode(), reply.edns) == (dns.rcode.BADVERS, 0)


def test_who_sends_no_edns_gets_none(bed: DnsBed) -> None:
    assert bed.ask("orders", edns=None).edns == -1
    assert bed.ask("orders").payload == 1_232


def test_what_was_answered_is_counted_by_type_and_result(bed: DnsBed) -> None:
    bed.ask("orders")
    bed.ask("orders", "TYPE4711")
    bed.ask("nope")
    assert sorted(bed.stats.kinds()) == [("A", "answered", 1), ("A", "unknown", 1), ("other", "empty", 1)]
    counters = bed.stats.counters()
    assert (counters["dns_queries"], counters["dns_answered"], counters["dns_unknown"]) == (3, 1, 1)


def test_the_index_follows_services_that_come_and_go() -> None:
    bed = DnsBed()
    for _ in range(2):
        bed.describe("orders")
        assert bed.ask("orders").rcode() == dns.rcode.NOERROR
        bed.registry.table.set_meta("public", GROUP + "orders", None, 0)
        assert bed.ask("orders").rcode() == dns.rcode.NXDOMAIN
        assert bed.ask("public").rcode() == dns.rcode.NXDOMAIN
    bed.register("orders", "10.0.0.1")
    assert bed.ips("orders") == ["10.0.0.1"]
