"""Members that lack one rule of links each. Production code has no switch for any of them."""

from dataclasses import replace
from typing import Any

from app.links.feed import Feed, Takes
from app.links.feed_lines import FollowedPart
from app.links.follower import LinkRules
from app.links.link_steps import LinkSteps
from app.links.nacos_out import HANDOVER_MS, LocalRegistrations
from app.naming.model.foreign import ForeignPart
from app.naming.model.model import Instance, Service
from app.naming.registry.union import view_of
from app.replication.address_client_type import HTTP_CLIENTS
from app.replication.client_type import CLIENTS
from app.replication.foreign_type import FOREIGN, ForeignStore
from app.tools.simulation.member.sim_links import SimLink
from app.tools.simulation.member.sim_nacos_link import SimNacosLink, SimNacosSide
from app.tools.simulation.member.sim_runtime import SimMailbox
from app.tools.simulation.world.linked_world import LinkedMember
from distro.model.types import Datum, DistroKey, Merged


class FollowsItself(LinkedMember):
    link_rules = LinkRules(refuses_own=False)


class EchoingFeed(Feed):
    """Sends out what links brought, too."""

    @staticmethod
    def leaving(service: Service) -> tuple[Instance, ...]:
        return tuple(replace(one, metadata=_unlabelled(one)) for one in view_of(service).instances)


def _unlabelled(one: Instance) -> dict[str, str | None]:
    return {name: text for name, text in (one.metadata or {}).items() if not name.startswith("rollcall.")}


class Echoes(LinkedMember):
    feed_class = EchoingFeed


class Unmarked(LinkedMember):
    link_rules = LinkRules(marks_stale=False)


class AnyDelta(LinkedMember):
    link_rules = LinkRules(checks_bases=False)


class TrustsTheYoung(LinkedMember):
    link_rules = LinkRules(keeps_unsettled=False)


class BelievesLosses(LinkedMember):
    link_rules = LinkRules(doubts_losses=False)


class EmptiesServices(LinkedMember):
    link_rules = LinkRules(keeps_last=False)


class LyingFeed(Feed):
    """Sends each follower all services."""

    def since(self, place: int, takes: Takes) -> tuple[list[bytes], int] | None:
        return super().since(place, _all)

    def compare(self, held: Any, takes: Takes, bytes_max: int) -> Any:
        return super().compare(held, _all, bytes_max)


def _all(_namespace: str, _full_name: str) -> bool:
    return True


class Lies(LinkedMember):
    feed_class = LyingFeed


class TakesAll(Lies):
    link_rules = LinkRules(checks_parts=False)


class HigherVersions(ForeignStore):
    """Keeps the state with the higher version."""

    @staticmethod
    def is_later(one: ForeignPart, other: ForeignPart) -> bool:
        return False


class KeepsHigher(LinkedMember):
    foreign_class = HigherVersions


class UncountedMerges(ForeignStore):
    """Does not note that another member's state came."""

    def merge(self, datum: Datum, now_ms: int) -> Merged:
        merged = super().merge(datum, now_ms)
        self.merges.clear()
        return merged


class ComparesNotAgain(LinkedMember):
    foreign_class = UncountedMerges


class LateSteps(LinkSteps):
    """Takes lines that waited."""

    def _check_timely(self, begun_ms: int, most_ms: int) -> None:
        return


class LateLink(SimLink):
    steps_class = LateSteps


class TakesLateLines(LinkedMember):
    link_class = LateLink


class SingleSide(SimNacosSide):
    carries_twice = False


class SingleCarrier(SimNacosLink):
    """The owner of a service alone registers it."""

    side_class = SingleSide


class CarriesAlone(LinkedMember):
    nacos_class = SingleCarrier


class HastyRegistrations(LocalRegistrations):
    """Ends at once what others carry now."""

    def carry(self, parts: tuple[FollowedPart, ...], now_ms: int) -> None:
        super().carry(parts, now_ms - HANDOVER_MS)


class HastyCarrier(SimNacosLink):
    outgoing_class = HastyRegistrations


class EndsFirst(LinkedMember):
    nacos_class = HastyCarrier


class QuietMailbox(SimMailbox):
    def sync(self, key: DistroKey) -> None:
        if key.resource_type != FOREIGN:
            super().sync(key)


class KeepsToItself(LinkedMember):
    """The other members do not get the instances that a link brought."""

    left_out = frozenset({CLIENTS, HTTP_CLIENTS, FOREIGN})
    mailbox_class = QuietMailbox
