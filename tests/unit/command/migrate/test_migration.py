"""The decisions of ``rollcall migrate status``, from what both sides list."""

from dataclasses import replace
from typing import Any

from app.tools.audit.format.manifest import Link
from app.tools.command.migrate.member_view import ClusterLinks, LinkAtMember, MemberView
from app.tools.command.migrate.migration import (
    DepartureKind,
    Migration,
    MoveStep,
    Obstacle,
    StandsInTheWay,
    departures,
    judge,
)
from app.tools.command.migrate.nacos_view import (
    Address,
    ConnectedClient,
    ListedInstance,
    NacosSubscriber,
    NacosView,
    ServiceName,
)

ORDERS = ("public", "DEFAULT_GROUP@@orders")
CART = ("public", "DEFAULT_GROUP@@cart")
OURS = "dc-a"
M1, M2 = "10.1.0.1:8848", "10.1.0.2:8848"


def at(ip: str) -> Address:
    return ip, 80, "DEFAULT"


def nacos(services: dict[ServiceName, dict[str, ListedInstance]], **more: Any) -> NacosView:
    listed = {name: {at(ip): one for ip, one in found.items()} for name, found in services.items()}
    return NacosView("10.2.0.1:8848", "2.3.1", ("10.2.0.1:8848",), listed, **more)


OWN, SENT, OTHER, DISABLED = (
    ListedInstance(True, ""),
    ListedInstance(True, OURS),
    ListedInstance(True, "dc-c"),
    ListedInstance(False, ""),
)


def linked(
    local: dict[ServiceName, set[str]] | None = None,
    brought: dict[ServiceName, set[str]] | None = None,
    *,
    link: Link | None = Link("old", "nacos:old"),  # noqa: B008
    direction: str = "both",
    at_members: tuple[str, ...] = (M1, M2),
    problem: str = "",
) -> MemberView:
    links = tuple(LinkAtMember(one, "old", direction, ("10.2.0.1:8848",), problem, "") for one in at_members)
    view = MemberView(OURS, link, links, ClusterLinks(links, (M1, M2), ()))
    view.local = {name: set(map(at, ips)) for name, ips in (local or {}).items()}
    view.brought = {name: set(map(at, ips)) for name, ips in (brought or {}).items()}
    return view


def unlinked(local: dict[ServiceName, set[str]] | None = None) -> MemberView:
    return linked(local, link=None, at_members=())


def judged(there: NacosView, here: MemberView) -> Migration:
    return judge(there, here, departures(there, here))


def reasons(found: Migration) -> list[Obstacle]:
    return [one.reason for one in found.obstacles]


def test_without_a_link_the_first_step_is_to_set_one() -> None:
    found = judged(nacos({ORDERS: {"10.0.0.1": OWN}}), unlinked({CART: {"10.0.0.9"}}))
    assert (found.step, found.is_safe) == (MoveStep.LINK, False)
    assert found.obstacles == (StandsInTheWay(Obstacle.NO_LINK), StandsInTheWay(Obstacle.REGISTERED, 1, 1, 1))


def test_a_link_of_one_direction_or_at_some_members_is_no_link_yet() -> None:
    there = nacos({ORDERS: {"10.0.0.1": OWN}})
    one_way = judged(there, linked(brought={ORDERS: {"10.0.0.1"}}, direction="in"))
    assert (one_way.step, reasons(one_way)) == (MoveStep.LINK, [Obstacle.ONE_WAY, Obstacle.REGISTERED])
    partly = judged(there, linked(brought={ORDERS: {"10.0.0.1"}}, at_members=(M1,)))
    assert partly.step is MoveStep.LINK
    assert partly.obstacles[0] == StandsInTheWay(Obstacle.LINK_ABSENT, details=(M2,))


def test_both_sides_of_a_link_are_compared_by_address() -> None:
    there = nacos(
        {
            ORDERS: {"10.0.0.1": OWN, "10.0.0.2": OWN, "10.0.0.3": DISABLED, "10.0.0.4": SENT, "10.0.0.5": SENT},
            CART: {"10.0.0.8": OTHER},
        }
    )
    here = linked({ORDERS: {"10.0.0.4", "10.0.0.6"}}, {ORDERS: {"10.0.0.1", "10.0.0.7"}})
    assert {(one.kind, one.address[0]) for one in departures(there, here)} == {
        (DepartureKind.MISSING_HERE, "10.0.0.2"),  # a disabled one does not come
        (DepartureKind.MISSING_THERE, "10.0.0.6"),
        (DepartureKind.GONE_THERE, "10.0.0.7"),
        (DepartureKind.GONE_HERE, "10.0.0.5"),
    }
    found = judged(there, here)
    assert found.step is MoveStep.AGREE
    assert found.obstacles[:4] == tuple(StandsInTheWay(Obstacle(one.value), 1, 1) for one in DepartureKind)
    assert departures(there, replace(here, link=None)) == set()


def test_an_address_that_is_registered_at_both_sides_is_no_difference() -> None:
    there = nacos({ORDERS: {"10.0.0.1": OWN}})
    assert departures(there, linked({ORDERS: {"10.0.0.1"}})) == set()


def test_services_that_the_link_leaves_out_are_not_compared_but_stand_in_the_way() -> None:
    there = nacos({ORDERS: {"10.0.0.1": OWN}, CART: {"10.0.0.2": OWN}})
    found = judged(there, linked(brought={ORDERS: {"10.0.0.1"}}, link=Link("old", "", services=["*", "!cart"])))
    assert (found.step, reasons(found)) == (MoveStep.MOVE, [Obstacle.REGISTERED])
    assert {one.name: one.is_linked for one in found.services} == {ORDERS: True, CART: False}


def test_a_silent_link_does_not_agree() -> None:
    found = judged(nacos({ORDERS: {"10.0.0.1": OWN}}), linked(brought={ORDERS: {"10.0.0.1"}}, problem="cut"))
    assert found.step is MoveStep.AGREE
    assert found.obstacles[0] == StandsInTheWay(Obstacle.SILENT, details=(f"{M1}: cut", f"{M2}: cut"))


def test_who_is_left_is_counted_by_services_and_by_clients() -> None:
    there = nacos(
        {ORDERS: {"10.0.0.1": OWN, "10.0.0.2": OWN, "10.0.0.9": SENT}, CART: {"10.0.0.1": OWN, "10.0.0.8": OTHER}},
        subscribers={NacosSubscriber(CART, "10.0.0.3", "Nacos-Go-Client:v2.3.2", "shop")},
        connections={
            ConnectedClient("10.0.0.3", "Nacos-Go-Client:v2.3.2", "shop"),
            ConnectedClient("10.0.0.4", "", "-"),
        },
    )
    here = linked({ORDERS: {"10.0.0.9"}}, {ORDERS: {"10.0.0.1", "10.0.0.2"}, CART: {"10.0.0.1"}})
    found = judged(there, here)
    assert found.step is MoveStep.MOVE
    assert found.obstacles == (
        StandsInTheWay(Obstacle.REGISTERED, 2, 3, 2),
        StandsInTheWay(Obstacle.OF_OTHERS, 1, 1),
        StandsInTheWay(Obstacle.SUBSCRIBED, 1, clients=1),
        StandsInTheWay(Obstacle.CONNECTED, clients=1),
    )
    assert {
        one.name[1]: (one.registered, one.of_others, one.sent, one.here, one.brought) for one in found.services
    } == {
        ORDERS[1]: (2, 0, 1, 1, 2),
        CART[1]: (1, 1, 0, 0, 1),
    }
    assert [(one.ip, one.app, one.registers, one.subscribes, one.is_connected) for one in found.clients] == [
        ("10.0.0.1", "", 2, 0, False),
        ("10.0.0.2", "", 1, 0, False),
        ("10.0.0.3", "shop", 0, 1, True),
        ("10.0.0.4", "", 0, 0, True),
    ]


def test_a_registration_counts_for_the_only_client_with_its_address() -> None:
    def clients(*apps: str) -> list[tuple[str, int, int]]:
        subscribers = {NacosSubscriber(CART, "10.0.0.1", "", app) for app in apps}
        found = judged(nacos({ORDERS: {"10.0.0.1": OWN}}, subscribers=subscribers), linked())
        return [(one.app, one.registers, one.subscribes) for one in found.clients]

    assert clients("shop") == [("shop", 1, 1)]
    assert clients("shop", "till") == [("", 1, 0), ("shop", 0, 1), ("till", 0, 1)]


def test_it_is_safe_once_nobody_is_left_whatever_is_missing_at_the_nacos() -> None:
    there = nacos({ORDERS: {"10.0.0.1": SENT}, CART: {}})
    found = judged(there, linked({ORDERS: {"10.0.0.1"}, CART: {"10.0.0.2"}}))
    assert (found.step, found.obstacles, found.is_safe) == (MoveStep.SWITCH_OFF, (), True)
    done = judged(there, unlinked({ORDERS: {"10.0.0.1"}}))
    assert (done.step, done.is_safe) == (MoveStep.DONE, True)


def test_it_is_not_safe_while_gone_instances_are_listed_here_or_a_part_is_unknown() -> None:
    ghost = judged(nacos({ORDERS: {}}), linked(brought={ORDERS: {"10.0.0.1"}}))
    assert (ghost.step, reasons(ghost)) == (MoveStep.AGREE, [Obstacle.GONE_THERE])
    unknown = judged(nacos({}, unknown=["10.2.0.2:8848: no answer within 5 s"]), linked())
    assert (unknown.step, reasons(unknown)) == (MoveStep.MOVE, [Obstacle.UNKNOWN])
