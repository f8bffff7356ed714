"""The room for connections: what each kind keeps, what all share, and that both are counted exactly."""

import random
import resource

import pytest

from app.machine.limits.client_addresses import Frontend
from app.machine.limits.connection_room import ConnectionRoom, Share, build_room
from app.machine.limits.node_limits import build_limits
from app.machine.process.open_files import CONNECTIONS_MAX, UNREGISTERED_MAX, files_wanted
from tests.support.fake_node import make_settings


def fill(share: Share, most: int = 1_000_000) -> int:
    """Take all that there is; how many those were."""
    return next(count for count in range(most) if not share.take())


class TestParts:
    @pytest.mark.parametrize(
        ("total", "http", "members", "possible"),
        [
            (64, 16, 8, 40),
            (768, 192, 96, 480),
            (3_744, 468, 234, 3_042),
            (19_744, 2_468, 256, 17_020),
            (None, 6_024, 256, CONNECTIONS_MAX),
        ],
    )
    def test_each_kind_keeps_a_part_and_may_have_what_no_other_keeps(
        self, total: int | None, http: int, members: int, possible: int
    ) -> None:
        room = ConnectionRoom(total)
        assert (room.http.kept, room.grpc.kept, room.members.kept) == (http, http, members)
        assert room.http.possible == possible
        assert sum((room.http.kept, room.grpc.kept, room.members.kept, room.shared)) == room.total

    def test_with_descriptors_enough_every_kind_has_all_at_the_same_time(self) -> None:
        room = ConnectionRoom(files_wanted(has_grpc=True))
        assert fill(room.http) == CONNECTIONS_MAX
        assert fill(room.grpc) == CONNECTIONS_MAX + UNREGISTERED_MAX
        assert fill(room.members) == room.members.most

    def test_what_is_not_served_keeps_nothing(self) -> None:
        room = ConnectionRoom(1_000, has_grpc=False, has_members=False)
        assert (fill(room.grpc), fill(room.http)) == (0, 1_000)

    def test_a_node_follows_the_limit_of_open_files(self) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = build_room(make_settings(nacos_standalone="true", rollcall_rpc_enabled="false"))
        assert room.grpc.most == room.members.kept == 0
        assert room.total <= max(soft, 0) or soft == resource.RLIM_INFINITY


class TestCount:
    @pytest.mark.parametrize("flood", ["http", "grpc", "members"])
    def test_a_flood_of_one_kind_leaves_the_others_what_they_keep(self, flood: str) -> None:
        room = ConnectionRoom(1_000)
        kinds = {"http": room.http, "grpc": room.grpc, "members": room.members}
        assert fill(kinds[flood]) == kinds[flood].possible
        for name, share in kinds.items():
            if name != flood:
                assert fill(share) == share.kept
        assert sum(share.count for share in kinds.values()) == room.total

    def test_what_ends_can_be_taken_at_once_by_any_kind(self) -> None:
        room = ConnectionRoom(1_000)
        fill(room.grpc)
        fill(room.http)
        room.grpc.give_back()
        assert room.free == 1
        assert room.http.take()
        assert not room.http.take()
        assert not room.grpc.take()
        room.http.give_back()
        assert room.grpc.take()

    def test_members_call_over_http_when_its_clients_have_filled_it(self) -> None:
        room = ConnectionRoom(1_000)
        fill(room.http)
        assert room.take_http(is_member=False) is None
        assert room.take_http(is_member=True) is room.members
        fill(room.members)
        assert room.take_http(is_member=True) is None

    def test_members_have_what_clients_over_http_keep_too(self) -> None:
        room = ConnectionRoom(1_000)
        fill(room.grpc)
        fill(room.members)
        assert room.take_http(is_member=True) is room.http

    def test_a_lower_bound_leaves_the_rest_to_the_others(self) -> None:
        room = ConnectionRoom(1_000)
        room.http.bound(10)
        room.http.bound(20)
        assert (room.http.possible, fill(room.http)) == (10, 10)
        assert fill(room.grpc) == 1_000 - 10 - room.members.kept

    @pytest.mark.parametrize("seed", range(20))
    def test_it_never_counts_too_many_and_ends_where_it_began(self, seed: int) -> None:
        chance = random.Random(seed)
        room = ConnectionRoom(chance.randrange(64, 2_000))
        shares, free = (room.http, room.grpc, room.members), room.free
        for _ in range(5_000):
            share = chance.choice(shares)
            before = share.count
            if chance.random() < 0.6:
                # Refused only when nothing of its own is left, nor of what all share.
                assert share.take() or (before >= share.kept and (not room.free or before == share.most))
            elif before:
                share.give_back()
            assert room.free == room.shared - sum(max(one.count - one.kept, 0) for one in shares) >= 0
            assert sum(one.count for one in shares) <= room.total
        for share in shares:
            for _ in range(share.count):
                share.give_back()
        assert (room.free, [share.count for share in shares]) == (free, [0, 0, 0])


def test_counters() -> None:
    room = ConnectionRoom(1_000)
    room.grpc.take()
    room.take_http(is_member=True)
    room.grpc.refused += 1
    assert room.counters() == {
        "connections_free": room.shared,
        "rpc_transports": 1,
        "rpc_connections_refused": 1,
        "member_connections": 1,
        "member_connections_refused": 0,
    }


class TestOneAddress:
    """Without a limit that is set, no address has the last tenth."""

    @staticmethod
    def taken(chosen: str) -> tuple[int, int, int]:
        limits = build_limits(make_settings(rollcall_limit_connectionsPerAddress=chosen))
        table, room = limits.addresses, limits.room
        over_grpc = next(n for n in range(100_000) if table.connect("10.1.1.1", Frontend.GRPC) is None)
        over_http = next(n for n in range(100_000) if table.connect("10.1.1.1", Frontend.HTTP) is None)
        return over_grpc, over_http, room.total

    def test_of_a_frontend_nor_of_all(self) -> None:
        over_grpc, over_http, total = self.taken("0")
        room = build_room(make_settings())
        assert over_grpc == min(room.grpc.possible, CONNECTIONS_MAX) * 9 // 10
        assert over_grpc + over_http <= total * 9 // 10

    def test_one_that_is_set_counts_for_each_frontend(self) -> None:
        assert self.taken("300")[:2] == (300, 300)
