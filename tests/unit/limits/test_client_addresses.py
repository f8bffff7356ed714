"""Client addresses: connections and writes of each, what is one address, and that none is forgotten too early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.machine.limits.client_addresses import BURST_S, AddressTable, ClientAddress, Frontend
from app.naming.model.ip_addresses import caller_key
from app.naming.model.nacos_errors import TooManyRequests

HTTP, GRPC = Frontend.HTTP, Frontend.GRPC
RATE = 2
BURST = RATE * BURST_S


class Bed:
    """A table with a clock that the test moves."""

    def __init__(self, connections_max: int = 0, writes_per_s: int = RATE, addresses_max: int = 100) -> None:
        self.now_s = 1_000.0
        self.table = AddressTable(connections_max, writes_per_s, now_s=lambda: self.now_s, addresses_max=addresses_max)

    def connect(self, ip: str = "10.0.0.1", frontend: Frontend = HTTP) -> ClientAddress:
        found = self.table.connect(ip, frontend)
        assert found is not None
        return found


def writes_done(address: ClientAddress, tries: int = 1_000) -> int:
    """How many of so many writes at once are let in."""
    for number in range(tries):
        try:
            address.take()
        except TooManyRequests:
            return number
    return tries


@pytest.mark.parametrize(
    ("ip", "same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"),
        ("fe80::1%eth0", "fe80::2%eth1"),
    ],
)
def test_an_ipv4_address_is_one_however_it_is_written_and_an_ipv6_address_is_its_64(ip: str, same: str) -> None:
    assert caller_key(ip) == caller_key(same)


@pytest.mark.parametrize(
    ("ip", "other"), [("10.0.0.1", "10.0.0.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1"), ("nonsense:1", "nonsense:2")]
)
def test_others_are_others(ip: str, other: str) -> None:
    assert caller_key(ip) != caller_key(other)


class TestConnections:
    def test_one_address_has_so_many_for_each_frontend_and_others_have_theirs(self) -> None:
        table = Bed(connections_max=2).table
        first = [table.connect("10.0.0.1", HTTP) for _ in range(3)]
        assert [one is None for one in first] == [False, False, True]
        assert table.connect("10.0.0.1", GRPC) is first[0]
        assert table.connect("10.0.0.2", HTTP) is not None
        assert table.stats.connections_per_address == 1
        assert first[0] is not None
        table.disconnect(first[0], HTTP)
        assert table.connect("10.0.0.1", HTTP) is first[0]

    def test_an_exempt_connection_counts_and_is_not_refused(self) -> None:
        table = Bed(connections_max=1).table
        assert table.connect("10.0.0.1", HTTP) is not None
        assert table.connect("10.0.0.1", HTTP, is_exempt=True) is not None
        assert table.connect("10.0.0.1", HTTP) is None

    def test_ten_thousand_behind_one_address_are_let_in_without_a_limit(self) -> None:
        table = Bed(writes_per_s=0).table
        found = {table.connect("10.0.0.1", HTTP) for _ in range(10_000)}
        [one] = found
        assert one is not None
        assert writes_done(one, 20_000) == 20_000


class TestWrites:
    def test_a_bucket_holds_a_burst_and_fills_by_time(self) -> None:
        bed = Bed()
        one = bed.connect()
        assert writes_done(one) == BURST
        bed.now_s += 1
        assert writes_done(one) == RATE
        bed.now_s += 1_000
        assert writes_done(one) == BURST

    def test_the_refusal_names_the_limit_and_when_to_come_again(self) -> None:
        bed = Bed()
        one = bed.connect()
        writes_done(one)
        with pytest.raises(TooManyRequests, match=r"rollcall\.limit\.writesPerSecondPerAddress=2") as refused:
            one.take()
        assert refused.value.retry_after_s == 1 / RATE
        assert bed.table.stats.writes_per_second_per_address == 2

    def test_connections_of_one_address_share_its_bucket_and_others_do_not(self) -> None:
        bed = Bed()
        assert writes_done(bed.connect()) == BURST
        assert writes_done(bed.connect(frontend=GRPC)) == 0
        assert writes_done(bed.connect("10.0.0.2")) == BURST

    def test_a_batch_is_let_in_whole_and_paid_for_later_within_a_bound(self) -> None:
        bed = Bed()
        one = bed.connect()
        one.take()
        one.owe(10_000)
        bed.now_s += BURST_S
        assert writes_done(one) == 0
        bed.now_s += 1
        assert writes_done(one) == RATE

    def test_a_write_that_is_counted_elsewhere_is_given_back(self) -> None:
        one = Bed().connect()
        for _ in range(10 * BURST):
            one.take()
            one.give_back()

    @pytest.mark.parametrize("others", [0, 50])
    def test_neither_a_new_connection_nor_other_addresses_give_a_full_bucket(self, others: int) -> None:
        bed = Bed(addresses_max=20)
        one = bed.connect()
        assert writes_done(one) == BURST
        bed.table.disconnect(one, HTTP)
        for number in range(others):
            passing = bed.connect(f"10.1.0.{number}")
            writes_done(passing)
            bed.table.disconnect(passing, HTTP)
        assert writes_done(bed.connect()) == 0

    def test_a_table_without_room_lets_new_addresses_share_one_bucket_until_others_have_rested(self) -> None:
        bed = Bed(addresses_max=2)
        for ip in ("10.0.0.1", "10.0.0.2"):
            one = bed.connect(ip)
            one.take()
            bed.table.disconnect(one, HTTP)
        assert writes_done(bed.connect("10.0.0.3")) == BURST
        late = bed.connect("10.0.0.4")
        assert writes_done(late) == 0
        bed.table.disconnect(late, HTTP)
        bed.now_s += BURST_S
        assert writes_done(bed.connect("10.0.0.5")) == BURST
        assert len(bed.table) <= 2

    @given(
        steps=st.lists(
            st.one_of(
                st.sampled_from(["write", "go", "come"]),
                st.floats(0.0, 3.0, allow_nan=False),
                st.integers(2, 60),
            ),
            max_size=200,
        )
    )
    def test_no_history_lets_in_more_than_the_burst_and_the_rate(self, steps: list[str | float | int]) -> None:
        """``write``, an end and a new connection of one address, time that passes, other addresses that come and go."""
        bed = Bed(addresses_max=10)
        begun_s, done, one = bed.now_s, 0, bed.connect()
        for step in steps:
            match step:
                case "write":
                    done += writes_done(one, 3)
                case "go" | "come":
                    bed.table.disconnect(one, HTTP)
                    one = bed.connect()
                case float():
                    bed.now_s += step
                case int():
                    other = bed.connect(f"10.1.0.{step}")
                    writes_done(other, 1)
                    bed.table.disconnect(other, HTTP)
            assert done <= BURST + RATE * (bed.now_s - begun_s) + 1e-6
            assert len(bed.table) <= 10
