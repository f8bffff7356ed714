"""The state of a move from a Nacos to this cluster: its step, the obstacles, and the clients that are still there."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from app.tools.command.migrate.member_view import MemberView
from app.tools.command.migrate.nacos_view import Address, ConnectedClient, NacosSubscriber, NacosView, ServiceName

BOTH = "both"
NO_APP = ("-", "unknown")
"""The application of clients that have no name."""
ClientKey = tuple[str, str, str]
"""IP, agent and application of a client."""


class MoveStep(IntEnum):
    """The steps of a move, in their order."""

    LINK = 1
    """Link both clusters."""
    AGREE = 2
    """Wait until both sides list the same."""
    MOVE = 3
    """Move the clients."""
    SWITCH_OFF = 4
    """No client is left: remove the link, and switch the Nacos off."""
    DONE = 5
    """No client is left, and there is no link."""


class DepartureKind(StrEnum):
    """A difference between both sides of a link."""

    MISSING_HERE = "missingHere"
    MISSING_THERE = "missingThere"
    GONE_THERE = "goneThere"
    """Brought here, and not registered at the Nacos any more."""
    GONE_HERE = "goneHere"
    """Registered there by the link, and not registered here any more."""


class LinkDeparture(NamedTuple):
    """A difference about one instance."""

    kind: DepartureKind
    name: ServiceName
    address: Address


class Obstacle(StrEnum):
    """A reason why the Nacos cannot be switched off."""

    NO_LINK = "noLink"
    ONE_WAY = "oneWay"
    LINK_ABSENT = "linkAbsent"
    SILENT = "silent"
    MISSING_HERE = "missingHere"
    MISSING_THERE = "missingThere"
    GONE_THERE = "goneThere"
    GONE_HERE = "goneHere"
    REGISTERED = "registered"
    OF_OTHERS = "ofOtherClusters"
    SUBSCRIBED = "subscribed"
    CONNECTED = "connected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StandsInTheWay:
    """An obstacle with its extent."""

    reason: Obstacle
    services: int = 0
    instances: int = 0
    clients: int = 0
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceStanding:
    """A service at both sides, by its name at the Nacos. The numbers count instances, except for ``subscribers``."""

    name: ServiceName
    registered: int
    """Registered at the Nacos by clients."""
    of_others: int
    """Registered at the Nacos by links of other clusters."""
    sent: int
    """Registered at the Nacos by the link of this cluster."""
    here: int
    """Registered here by clients."""
    brought: int
    """Brought here by the link."""
    subscribers: int
    """Clients that subscribe to it at the Nacos."""
    is_linked: bool
    departures: tuple[LinkDeparture, ...]

    @property
    def is_at_nacos(self) -> bool:
        """Return whether a client registers or subscribes to it at the Nacos."""
        return bool(self.registered or self.of_others or self.subscribers)

    @property
    def is_moved(self) -> bool:
        """Return whether nothing is left to do for it."""
        return not self.is_at_nacos and not self.departures


@dataclass(frozen=True, slots=True)
class ClientStanding:
    """A client at the Nacos, by its IP and the words with which it subscribes or connects.

    A registration names its IP alone. It counts for the one that subscribes or connects from there, if there is one.
    """

    ip: str
    agent: str
    app: str
    registers: int
    subscribes: int
    is_connected: bool


@dataclass(frozen=True, slots=True)
class Migration:
    """The state of a move. It is safe to switch the Nacos off if nothing is in the way."""

    step: MoveStep
    obstacles: tuple[StandsInTheWay, ...]
    services: tuple[ServiceStanding, ...]
    clients: tuple[ClientStanding, ...]

    @property
    def is_safe(self) -> bool:
        return not self.obstacles


def departures(nacos: NacosView, here: MemberView) -> set[LinkDeparture]:
    """Return where both sides of the link differ; nothing without a link."""
    if here.link is None:
        return set()
    found = set[LinkDeparture]()
    for name in nacos.services.keys() | here.local.keys() | here.brought.keys():
        if not here.takes(name):
            continue
        listed = nacos.services.get(name, {})
        own = {address for address, one in listed.items() if not one.origin}
        local, brought = here.local.get(name, set()), here.brought.get(name, set())
        kinds = dict[DepartureKind, set[Address]]()
        if here.brings:
            # A link brings no instance that clients of the Nacos do not get.
            shown = {address for address in own if listed[address].enabled}
            kinds[DepartureKind.MISSING_HERE] = shown - brought - local
            kinds[DepartureKind.GONE_THERE] = brought - own
        if here.sends:
            kinds[DepartureKind.MISSING_THERE] = local - listed.keys()
            kinds[DepartureKind.GONE_HERE] = {one for one in listed if listed[one].origin == here.cluster} - local
        found.update(LinkDeparture(kind, name, one) for kind, addresses in kinds.items() for one in addresses)
    return found


def judge(nacos: NacosView, here: MemberView, lasting: Iterable[LinkDeparture]) -> Migration:
    """Return the state of the move. ``lasting``: the differences that are none of the moment."""
    by_name: dict[ServiceName, list[LinkDeparture]] = {}
    for one in lasting:
        by_name.setdefault(one.name, []).append(one)
    subscribers: dict[ServiceName, int] = {}
    for subscriber in nacos.subscribers:
        subscribers[subscriber.name] = subscribers.get(subscriber.name, 0) + 1
    names = nacos.services.keys() | here.local.keys() | here.brought.keys() | subscribers.keys()
    services = [_standing(nacos, here, one, subscribers.get(one, 0), by_name.get(one, [])) for one in sorted(names)]
    services.sort(key=lambda one: (one.is_moved, not one.is_at_nacos))
    clients = _clients(nacos)
    there = _at_nacos(nacos, services, clients)
    gone = tuple(_differing(services, DepartureKind.GONE_THERE))
    if not there and not gone:
        step = MoveStep.SWITCH_OFF if here.at_members else MoveStep.DONE
        return Migration(step, (), tuple(services), clients)
    linking, agreeing = tuple(_unlinked(here)), tuple(_unlike(here, services))
    step = MoveStep.LINK if linking else MoveStep.AGREE if agreeing else MoveStep.MOVE
    return Migration(step, (*linking, *agreeing, *there), tuple(services), clients)


def _standing(
    nacos: NacosView, here: MemberView, name: ServiceName, subscribers: int, differing: Collection[LinkDeparture]
) -> ServiceStanding:
    origins = [one.origin for one in nacos.services.get(name, {}).values()]
    sent = origins.count(here.cluster) if here.cluster else 0
    registered = origins.count("")
    return ServiceStanding(
        name,
        registered=registered,
        of_others=len(origins) - registered - sent,
        sent=sent,
        here=len(here.local.get(name, ())),
        brought=len(here.brought.get(name, ())),
        subscribers=subscribers,
        is_linked=here.takes(name),
        departures=tuple(sorted(differing)),
    )


def _clients(nacos: NacosView) -> tuple[ClientStanding, ...]:
    subscribes: dict[ClientKey, set[ServiceName]] = {}
    for subscriber in nacos.subscribers:
        subscribes.setdefault(_key(subscriber), set()).add(subscriber.name)
    connected = set(map(_key, nacos.connections))
    named = subscribes.keys() | connected
    by_ip: dict[str, list[ClientKey]] = {}
    for key in named:
        by_ip.setdefault(key[0], []).append(key)
    registers: dict[ClientKey, set[ServiceName]] = {}
    for name, listed in nacos.services.items():
        for address, one in listed.items():
            if not one.origin:
                alike = by_ip.get(address[0], [])
                key = alike[0] if len(alike) == 1 else (address[0], "", "")
                registers.setdefault(key, set()).add(name)
    return tuple(
        ClientStanding(
            *key,
            registers=len(registers.get(key, ())),
            subscribes=len(subscribes.get(key, ())),
            is_connected=key in connected,
        )
        for key in sorted(named | registers.keys())
    )


def _key(one: NacosSubscriber | ConnectedClient) -> ClientKey:
    return one.ip, one.agent, "" if one.app in NO_APP else one.app


def _at_nacos(
    nacos: NacosView, services: Collection[ServiceStanding], clients: Collection[ClientStanding]
) -> tuple[StandsInTheWay, ...]:
    """Return who is still at the Nacos."""
    found = list[StandsInTheWay]()
    if registered := [one for one in services if one.registered]:
        count = sum(one.registered for one in registered)
        who = sum(bool(one.registers) for one in clients)
        found.append(StandsInTheWay(Obstacle.REGISTERED, len(registered), count, who))
    if others := [one for one in services if one.of_others]:
        found.append(StandsInTheWay(Obstacle.OF_OTHERS, len(others), sum(one.of_others for one in others)))
    if subscribed := [one for one in services if one.subscribers]:
        who = sum(bool(one.subscribes) for one in clients)
        found.append(StandsInTheWay(Obstacle.SUBSCRIBED, len(subscribed), clients=who))
    if idle := [one for one in clients if one.is_connected and not one.registers and not one.subscribes]:
        found.append(StandsInTheWay(Obstacle.CONNECTED, clients=len(idle)))
    if nacos.unknown:
        found.append(StandsInTheWay(Obstacle.UNKNOWN, details=tuple(nacos.unknown)))
    return tuple(found)


def _unlinked(here: MemberView) -> Iterable[StandsInTheWay]:
    """Yield what the link lacks."""
    if not here.at_members:
        yield StandsInTheWay(Obstacle.NO_LINK)
        return
    if one_way := sorted({one.direction for one in here.at_members} - {BOTH}):
        yield StandsInTheWay(Obstacle.ONE_WAY, details=tuple(one_way))
    if lacking := set(here.links.members) - {one.member for one in here.at_members}:
        yield StandsInTheWay(Obstacle.LINK_ABSENT, details=tuple(sorted(lacking)))


def _unlike(here: MemberView, services: Collection[ServiceStanding]) -> Iterable[StandsInTheWay]:
    """Yield why both sides do not agree, or may not."""
    silent = [f"{one.member}: {one.problem}" for one in here.at_members if one.problem]
    if silent or here.links.absent:
        yield StandsInTheWay(Obstacle.SILENT, details=(*silent, *here.links.absent))
    for kind in DepartureKind:
        yield from _differing(services, kind)


def _differing(services: Collection[ServiceStanding], kind: DepartureKind) -> Iterable[StandsInTheWay]:
    counts = [sum(each.kind is kind for each in one.departures) for one in services]
    if any(counts):
        yield StandsInTheWay(Obstacle(kind.value), sum(map(bool, counts)), sum(counts))
