"""Faults to plant in a synthetic dump, each in its own service, and the finding that the check must make of each."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from app.rows.rows import Layer, canonical, client_row, record_row
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import Seen
from scripts.synthetic.planting import ROUNDS, Place, Planted, View, of_instance, of_member, of_service
from scripts.synthetic.services import GAP_MS, ServiceMaker, SyntheticService

CORRUPT_FILE = "CORRUPT_FILE"
"""A fault of class CORRUPT in a file's bytes; ``CORRUPT`` itself is a row that cannot be read."""
LATE = "LATE"
STALE_SLACK_MS = 5_000
STRANGER = "10.9.9.9:8848"

UNTOLD = frozenset({FindingClass.OWNER, FindingClass.STALE})
"""Not possible in dumps of members that report neither owners nor beats."""
UNVERSIONED = frozenset({FindingClass.SILENT_CORRUPTION, FindingClass.BEHIND})
"""Not possible in dumps of members that report no versions."""
OF_MEMBERS = frozenset({FindingClass.MEMBERSHIP, FindingClass.ABSENT_MEMBER, CORRUPT_FILE})
"""Faults planted in a whole member, not in a service."""
ALONE = frozenset({FindingClass.STALE, FindingClass.DRIFT, FindingClass.DUPLICATE, FindingClass.CORRUPT})
"""Faults visible in a single member; the others need a second member to differ from."""


def missing(place: Place) -> list[Planted]:
    """A fault at a member; if enough others are left to decide, sometimes at the owner itself."""
    member = place.view.service.owner if place.variant % 3 == 2 and len(place.sound) > 2 else place.member
    for number in ROUNDS:
        place.view.drop(number, member)
    return [of_instance(FindingClass.MISSING, place.view.target, [member], True)]


def silent_corruption(place: Place) -> list[Planted]:
    """Other values under the common version."""
    changes: dict[str, Any] = {"weight": place.view.target["weight"] + 1}
    if place.variant % 2:
        changes |= {"metadata": {"zone": "elsewhere"}, "healthy": not place.view.target["healthy"]}
    for number in ROUNDS:
        place.view.change(number, place.member, **changes)
    return [of_instance(FindingClass.SILENT_CORRUPTION, place.view.target, [place.member], True)]


def behind(place: Place) -> list[Planted]:
    """An earlier version, or one that only a writer makes lower."""
    version = place.version(0 if place.variant % 2 else -1)
    if place.variant % 2 and version is not None:
        epoch, counter, writer = version.split(".", 2)
        version = f"{epoch}.{counter}.0{writer}"
    for number in ROUNDS:
        place.view.change(number, place.member, version=version)
    return [of_instance(FindingClass.BEHIND, place.view.target, [place.member], True)]


def lone_service(place: Place) -> list[Planted]:
    """A service without instances that only one member has, or lacks; of two members, the one without it lacks it."""
    row = place.view.rows[1, place.member][0]
    lone = row | {"service": f"{row['service']}-lone", "instances": 0}
    is_lacking = place.variant % 2 == 1
    for (_, member), rows in place.view.rows.items():
        if (member == place.member) != is_lacking:
            rows.append(dict(lone))
    lonely = len(place.sound) == 2 and not is_lacking
    departing = [one for one in place.sound if one != place.member] if lonely else [place.member]
    named = Planted(FindingClass.SERVICE.value, True, lone["namespace"], lone["service"], "", "", None, None, departing)
    return [named]


def settings(place: Place) -> list[Planted]:
    """A service's own values that differ at one member; of two members the earlier values are wrong."""
    ways: list[dict[str, Any]] = [
        {"protect_threshold": 0.75},
        {"metadata": {"team": "other"}},
        {"selector": canonical({"type": "label", "expression": ""})},
        {"clusters": canonical({"c2": {"checkPort": 81}})},
    ]
    for rows in place.view.rows.values():
        rows[0] = rows[0] | {"settings_version": place.version(0)}
    for number in ROUNDS:
        place.view.rows[number, place.member][0] |= ways[place.variant % len(ways)] | {
            "settings_version": place.version(-1)
        }
    return [of_service(FindingClass.SETTINGS, place.view.service, [_wrong(place)])]


def _wrong(place: Place) -> str:
    """The member taken to be wrong when one differs: of two that report no versions, the second."""
    undecided = len(place.sound) == 2 and not place.maker.kind.tells_versions
    return sorted(place.sound)[1] if undecided else place.member


def record(place: Place) -> list[Planted]:
    """A namespace with another name at one member, or missing there."""
    name = f"namespace {place.view.service.number}"
    values = {member: record_row(name, {"name": "of all"}, place.version(0)) for _, member in place.view.rows}
    if place.variant % 2:
        del values[place.member]
        place.view.add(values)
        return [_named(FindingClass.RECORD, name, place.member)]
    values[place.member] = record_row(name, {"name": "of one"}, place.version(-1))
    place.view.add(values)
    return [_named(FindingClass.RECORD, name, _wrong(place))]


def client(place: Place) -> list[Planted]:
    """A client that differs from its own member's data, is missing, or exists but is gone at its own member."""
    holder, name = place.view.service.owner, f"1795230900000_10.8.0.1_{place.view.service.number}"
    values = {member: client_row(name, 7, holder, 1) for _, member in place.view.rows}
    match place.variant % 3:
        case 0:
            values[place.member] = client_row(name, 6, holder, 1)
        case 1:
            del values[place.member]
        case _:
            values = {place.member: values[place.member]}
    place.view.add(values)
    return [_named(FindingClass.CLIENT, name, place.member)]


def _named(finding_class: FindingClass, name: str, member: str) -> Planted:
    return Planted(finding_class.value, True, "", "", "", "", None, None, [member], name)


def extra(place: Place) -> list[Planted]:
    target = place.view.target
    retained_instance = target | {"ip": f"172.{target['ip'].removeprefix('10.')}"}
    for number in ROUNDS:
        place.view.rows[number, place.member].append(retained_instance)
    return [of_instance(FindingClass.EXTRA, retained_instance, [place.member], True)]


def value(finding_class: FindingClass) -> Callable[[Place], list[Planted]]:
    """One field that differs at a member, because a change did not arrive there."""

    def plant(place: Place) -> list[Planted]:
        target = place.view.target
        metadata = {"zone": "elsewhere"} if place.variant % 2 else target["metadata"] | {"stage": "old"}
        changes: dict[str, Any] = {
            FindingClass.HEALTH: {"healthy": not target["healthy"]},
            FindingClass.WEIGHT: {"weight": target["weight"] + 1},
            FindingClass.METADATA: {"metadata": metadata},
            FindingClass.ENABLED: {"enabled": not target["enabled"]},
        }[finding_class]
        for number in ROUNDS:
            place.view.change(number, place.member, version=place.version(-1), **changes)
        return [of_instance(finding_class, target, [place.member], True)]

    return plant


def owner(place: Place) -> list[Planted]:
    """Two members that name themselves, or none as each names the next, or all a stranger; or one names a third."""
    sound, service = place.sound, place.view.service
    if place.variant % 4 == 3:
        for rows in place.view.rows.values():
            rows[0]["owner"] = STRANGER
        return [of_service(FindingClass.OWNER, service, sound)]
    if place.variant % 3 == 2 and len(sound) > 2:
        third = next(one for one in sound if one not in (service.owner, place.member))
        for number in ROUNDS:
            place.view.rows[number, place.member][0]["owner"] = third
        return [of_service(FindingClass.OWNER, service, [place.member])]
    named = {place.member: place.member}
    if place.variant % 2:
        named = {member: sound[(index + 1) % len(sound)] for index, member in enumerate(sound)}
    for number in ROUNDS:
        for member, claimer in named.items():
            place.view.rows[number, member][0]["owner"] = claimer
    concerned = sound if place.variant % 2 else [service.owner, place.member]
    return [of_service(FindingClass.OWNER, service, concerned)]


def drift(place: Place) -> list[Planted]:
    """Make the replicated row differ from the visible one, or remove it; the visible row agrees with other members."""
    member = place.member if place.variant % 3 else place.view.service.owner
    for number in ROUNDS:
        rows = place.view.rows[number, member]
        rows[1] = rows[1] | {"layer": Layer.VIEW.value}
        if place.variant % 2 == 0:
            changes = {"weight": rows[1]["weight"] + 1} if place.variant % 4 else {"metadata": {"zone": "elsewhere"}}
            rows.insert(1, rows[1] | {"layer": Layer.DATUM.value} | changes)
    return [of_instance(FindingClass.DRIFT, place.view.target, [member], True)]


def stale(place: Place) -> list[Planted]:
    holder, target = place.view.service.owner, place.view.target
    first_ms = target["delete_timeout_ms"] + STALE_SLACK_MS + 1 + place.variant * 60_000
    for number in ROUNDS:
        age_ms = first_ms + (number - 1) * GAP_MS
        # The beat may be older than the silence that counts.
        silence = {"silent_ms": age_ms} if place.variant % 2 else {}
        place.view.rows[number, holder][1].pop("silent_ms", None)
        place.view.change(number, holder, beat_age_ms=age_ms + 40_000 * len(silence), **silence)
    return [of_instance(FindingClass.STALE, target, [holder], True)]


def duplicate(place: Place) -> list[Planted]:
    """Twice at one member; or at all members in two services of one name."""
    if len(place.views) == 1:
        for number in ROUNDS:
            rows = place.view.rows[number, place.member]
            rows.append(rows[1])
        return [of_instance(FindingClass.DUPLICATE, place.view.target, [place.member], True)]
    first, second = place.views
    same = {name: first.target[name] for name in ("ip", "port", "cluster")}
    for rows in second.rows.values():
        rows[1] = rows[1] | same
    later = max(first, second, key=lambda view: view.service.name)
    return [of_instance(FindingClass.DUPLICATE, later.target | same, place.sound, True)]


def corrupt(place: Place) -> list[Planted]:
    """An invalid row in one round, which ends its file, so that each has its own; or a service's own row is lost."""
    if place.variant % 4 == 3:
        for number in ROUNDS:
            del place.view.rows[number, place.member][0]
        return [of_member(FindingClass.CORRUPT, [place.member])]
    without_ip = b'{"kind":"instance","layer":"both","namespace":"public","service":"DEFAULT_GROUP@@half"}\n'
    cut = b'{"kind":"instance","layer":"both","namespace":"public","service":"DEFAULT_GROUP@@orders","clus\n'
    line = (cut, without_ip, b"502 Bad Gateway\n")[place.variant % 3]
    place.view.rows[ROUNDS[place.variant % 2], place.member].append(line)
    return [of_member(FindingClass.CORRUPT, [place.member])]


def late(place: Place) -> list[Planted]:
    """A change under way in one round, or a different one in each round: a difference that does not last."""
    view, member, target = place.view, place.member, place.view.target
    ways = [
        (FindingClass.HEALTH, (1,)),
        (FindingClass.WEIGHT, (2,)),
        (FindingClass.MISSING, (1,)),
        (FindingClass.HEALTH, ROUNDS),
        (FindingClass.WEIGHT, ROUNDS),
        (FindingClass.MISSING, ROUNDS),  # only the versions distinguish it from a lasting one
    ]
    finding_class, rounds = ways[place.variant % (len(ways) if place.maker.kind.tells_versions else len(ways) - 1)]
    healthy, weight = target["healthy"], target["weight"]
    if rounds == ROUNDS:  # in round 2 all but one member hold a later change
        for other in place.sound:
            match finding_class:
                case FindingClass.HEALTH:
                    view.change(2, other, version=place.version(2), healthy=not healthy)
                case FindingClass.WEIGHT:
                    view.change(2, other, version=place.version(2), weight=weight + 2)
                case _:
                    view.change(2, other, version=place.version(2))
    for number in rounds:
        behind = place.version(-1 if number == 1 or rounds != ROUNDS else 1)
        match finding_class:
            case FindingClass.HEALTH:
                flipped = not healthy if number == 1 or rounds != ROUNDS else healthy
                view.change(number, member, version=behind, healthy=flipped)
            case FindingClass.WEIGHT:
                view.change(number, member, version=behind, weight=weight + 1)
            case _:
                view.drop(number, member)
    return [of_instance(finding_class, target, [member], False)]


PLANTS: dict[str, Callable[[Place], list[Planted]]] = {
    FindingClass.MISSING: missing,
    FindingClass.EXTRA: extra,
    FindingClass.HEALTH: value(FindingClass.HEALTH),
    FindingClass.WEIGHT: value(FindingClass.WEIGHT),
    FindingClass.METADATA: value(FindingClass.METADATA),
    FindingClass.ENABLED: value(FindingClass.ENABLED),
    FindingClass.SILENT_CORRUPTION: silent_corruption,
    FindingClass.BEHIND: behind,
    FindingClass.SERVICE: lone_service,
    FindingClass.SETTINGS: settings,
    FindingClass.RECORD: record,
    FindingClass.CLIENT: client,
    FindingClass.OWNER: owner,
    FindingClass.DRIFT: drift,
    FindingClass.STALE: stale,
    FindingClass.DUPLICATE: duplicate,
    FindingClass.CORRUPT: corrupt,
    LATE: late,
}


class Planter:
    """Plants faults in services one after the other; the seed decides the order."""

    def __init__(self, seed: int, maker: ServiceMaker, members: list[str], sound: list[str]) -> None:
        self._random = random.Random(f"faults {seed}")
        self._maker = maker
        self._members = members
        self._sound = sound
        self._due: list[tuple[str, int]] = []

    def plan(self, faults: Mapping[str, int]) -> None:
        self._due = [(name, variant) for name in PLANTS for variant in range(faults.get(name, 0))]
        self._random.shuffle(self._due)

    @property
    def left(self) -> int:
        return len(self._due)

    def next(self, size: int) -> tuple[str, list[View], list[Planted]]:
        """Return the next fault: its name, the rows of its services with ``size`` instances together, its findings."""
        name, variant = self._due.pop()
        holder = self._random.choice(self._sound)
        others = [member for member in self._sound if member != holder]
        alone = name in ALONE and self._random.random() < 0.5
        member = self._random.choice(others) if others and not alone else holder
        services = [self._maker.service_of(holder, size)]
        if name == FindingClass.DUPLICATE and variant % 2:
            services = [self._maker.service_of(holder, size - size // 2)]
            services.append(self._maker.twin_of(services[0], size // 2))
        views = [self._view(service) for service in services]
        planted = PLANTS[name](Place(self._maker, views, member, self._sound, variant))
        return name, views, planted

    def _view(self, service: SyntheticService) -> View:
        instances = [self._maker.instance(service, place, with_beats=place == 0) for place in range(service.size)]
        return View(self._maker, service, self._members, instances)


def member_lists(members: list[str], absent: list[str], odd: list[str]) -> dict[str, list[Seen]]:
    """Return the member list of each member that answers; each of the odd ones differs from all others."""
    agreed = [Seen(member, "DOWN" if member in absent else "UP") for member in members]
    lists = {member: agreed for member in members if member not in absent}
    for number, member in enumerate(odd):
        if number == 0:
            other = next(one for one in members if one != member and one not in absent)
            lists[member] = [Seen(one.address, "SUSPICIOUS") if one.address == other else one for one in agreed]
        else:
            lists[member] = [*agreed, Seen(f"10.0.9.{number}:8848", "UP")]
    return lists
