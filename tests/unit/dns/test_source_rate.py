"""The rate of one address: what is beyond it slips or is dropped, others are not touched, memory has a bound."""

from collections import Counter

from app.dns.source_rate import PROVEN_S, ProvenAddresses, RateVerdict, SourceRate


class Bed:
    def __init__(self, per_second: int, addresses_max: int = 100) -> None:
        self.now_s = 5.0
        self.rate = SourceRate(per_second, lambda: self.now_s, addresses_max)

    def many(self, ip: str, count: int) -> Counter[RateVerdict]:
        return Counter(self.rate.take(ip) for _ in range(count))


def test_half_of_what_is_beyond_is_answered_truncated() -> None:
    assert Bed(10).many("10.0.0.1", 20) == {RateVerdict.ANSWER: 10, RateVerdict.TRUNCATE: 5, RateVerdict.DROP: 5}


def test_others_have_their_own() -> None:
    bed = Bed(10)
    bed.many("10.0.0.1", 100)
    assert bed.many("10.0.0.2", 10) == {RateVerdict.ANSWER: 10}


def test_a_second_later_it_may_again() -> None:
    bed = Bed(10)
    bed.many("10.0.0.1", 100)
    bed.now_s += 1
    assert bed.many("10.0.0.1", 10) == {RateVerdict.ANSWER: 10}


def test_a_64_of_ipv6_is_one_address() -> None:
    bed = Bed(10)
    bed.many("2001:db8::1", 10)
    assert RateVerdict.ANSWER not in bed.many("2001:db8::2", 10)
    assert bed.many("2001:db8:0:1::1", 10) == {RateVerdict.ANSWER: 10}


def test_addresses_beyond_the_bound_share_one_count() -> None:
    bed = Bed(10, addresses_max=3)
    for number in range(3):
        bed.many(f"10.0.0.{number}", 1)
    assert sum(bed.many(f"10.0.1.{number}", 1)[RateVerdict.ANSWER] for number in range(50)) == 10
    assert bed.many("10.0.0.1", 9) == {RateVerdict.ANSWER: 9}


def test_without_a_rate_all_are_answered() -> None:
    assert Bed(0).many("10.0.0.1", 1_000) == {RateVerdict.ANSWER: 1_000}


def test_of_proven_addresses_the_oldest_is_forgotten_first() -> None:
    now_s = 0.0
    proven = ProvenAddresses(lambda: now_s, addresses_max=2)
    for ip in ("a", "b", "a", "c"):
        proven.note(ip)
    assert [proven.answer_bytes_max(ip, 40, 1_232) for ip in "abc"] == [1_232, 176, 1_232]
    now_s = PROVEN_S - 1
    proven.note("a")
    now_s = PROVEN_S
    assert [proven.answer_bytes_max(ip, 40, 1_232) for ip in "ac"] == [1_232, 176]
    assert proven.answer_bytes_max("c", 500, 512) == 512, "no more than the client takes"
