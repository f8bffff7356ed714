"""The heal of many services in one gap: all are read together, exchanged at the rate of the members, and read again.

Each service is decided as if it were healed alone. A member gets at most ``CALLS_PER_S`` calls a second.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event

from app.languages.phrases import phrase, shown
from app.tools.audit.client.access import Access
from app.tools.audit.heal.decide import Decision, Departure, decide, lasting
from app.tools.audit.heal.healing import (
    ASK_AGAIN_S,
    LOOK_AGAIN_S,
    CannotHeal,
    ask_all,
    check_count,
    refuse_others,
)
from app.tools.audit.heal.reading import Held, MemberAsked, NoAnswer, OtherKind, Wanted, read_services

SERVICES_MAX = 10_000
CALLS_PER_S = 40
"""Below the 50 that a member accepts: a call that is refused waits for a second."""


@dataclass(slots=True)
class HealOutcome:
    """One service: its lasting departures before and after, and why it cannot be exchanged, if so."""

    wanted: Wanted
    found: tuple[Departure, ...] = ()
    left: tuple[Departure, ...] = ()
    blocked: str = ""
    notes: tuple[str, ...] = ()
    is_gone: bool = False
    """True if no member has the service any more."""

    @property
    def agrees(self) -> bool:
        return not self.left and not self.blocked


@dataclass(slots=True)
class Many:
    """The record of a heal of many services."""

    outcomes: dict[Wanted, HealOutcome] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    """The members that did not answer the last time, with the reason."""
    refused: dict[str, str] = field(default_factory=dict)
    """The members that refused a call, with the last reason."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The states of the services by the address at which a member was asked, and what follows for each service."""

    held: Mapping[str, Mapping[Wanted, Held]]
    decisions: Mapping[Wanted, Decision | None]
    """None for a service that no member has."""


class ManyHealing:
    """Calls to all members about many services; one thread for each member, one connection each."""

    def __init__(self, addresses: Sequence[str], access: Access, stop: Event, *, with_clients: bool = False) -> None:
        """``stop``: ends pauses and further tries once it is set. ``with_clients``: as of ``read_services``.

        Raises:
            CannotHeal: there are too many members, or fewer than two.
        """
        check_count(addresses)
        self._addresses = tuple(addresses)
        self._access = access
        self._stop = stop
        self._with_clients = with_clients
        self.many = Many()

    def find(self, wanted: Sequence[Wanted], gap_s: float) -> Many:
        """Read all services, and those that differ once more after the gap; note the departures that last.

        Raises:
            CannotHeal: too few members answered, or one runs other software, or is named twice.
        """
        if len(wanted) > SERVICES_MAX:
            raise CannotHeal(
                phrase(
                    "a heal takes at most %(most)s services; choose some of %(count)s by class",
                    most=f"{SERVICES_MAX:,}",
                    count=f"{len(wanted):,}",
                )
            )
        look = self._look(wanted)
        for one in wanted:
            self.many.outcomes[one] = _outcome(one, look.decisions[one])
        differing = [one for one in wanted if self.many.outcomes[one].found]
        if differing and gap_s and not self._stop.wait(gap_s):
            again = self._look(differing)
            for one in differing:
                later = _outcome(one, again.decisions[one])
                later.found = lasting(self.many.outcomes[one].found, later.found)
                self.many.outcomes[one] = later
        for outcome in self.many.outcomes.values():
            outcome.left = outcome.found
        return self.many

    def heal(self, within_s: float, progress: Callable[[int], None]) -> None:
        """Have the members exchange what differs until they agree, for ``within_s`` after the last call at most.

        ``progress``: called with 1 after each call of the first round, from several threads: one for each service and
        member.

        Raises:
            CannotHeal: as ``find``.
        """
        pending = [one for one, outcome in self.many.outcomes.items() if outcome.found and not outcome.blocked]
        asked_s, began_s = -ASK_AGAIN_S, time.monotonic()
        asked: set[Wanted] = set()
        while pending and not self._stop.is_set():
            look = self._look(pending)
            for one in pending:
                now = _outcome(one, look.decisions[one])
                outcome = self.many.outcomes[one]
                outcome.left, outcome.blocked, outcome.is_gone = now.found, now.blocked, now.is_gone
            pending = [one for one in pending if self.many.outcomes[one].left and not self.many.outcomes[one].blocked]
            if asked and time.monotonic() - began_s >= within_s:
                return
            if pending and time.monotonic() - asked_s >= ASK_AGAIN_S:
                self._ask(look, pending, _silent if asked else progress)
                asked_s = time.monotonic()
                if not asked:
                    began_s = asked_s
                asked.update(pending)
            if pending:
                self._stop.wait(LOOK_AGAIN_S)

    def _look(self, wanted: Collection[Wanted]) -> _Look:
        def read(address: str) -> dict[Wanted, Held] | NoAnswer | OtherKind:
            return read_services(address, self._access, wanted, self._stop, with_clients=self._with_clients)

        answers = ask_all(self._addresses, read, self._stop)
        refuse_others({address: one for address, one in answers.items() if isinstance(one, OtherKind)})
        held = {address: one for address, one in answers.items() if isinstance(one, dict)}
        self.many.absent = {address: one.reason for address, one in answers.items() if isinstance(one, NoAnswer)}
        if len(held) < 2:
            reasons = "; ".join(f"{address}: {shown(reason)}" for address, reason in self.many.absent.items())
            raise CannotHeal(phrase("fewer than two members answered: %(reasons)s", reasons=reasons))
        own: dict[str, str] = {}
        for address, states in held.items():
            name = next((state.address for state in states.values()), address)
            if name in own:
                raise CannotHeal(
                    phrase("%(addresses)s are one member, %(member)s", addresses=f"{own[name]}, {address}", member=name)
                )
            own[name] = address
        return _Look(held, {one: _decision([states[one] for states in held.values()]) for one in wanted})

    def _ask(self, look: _Look, pending: Iterable[Wanted], progress: Callable[[int], None]) -> None:
        """Have the members exchange the services, the owner of a service that it lost some of before the others."""
        first: dict[str, list[Wanted]] = {}
        later: dict[str, list[Wanted]] = {}
        for one in pending:
            decision = look.decisions[one]
            if decision is None:
                continue
            for address, states in look.held.items():
                is_owner = states[one].address == decision.owner
                calls = first if is_owner or not (decision.source or decision.instances) else later
                calls.setdefault(address, []).append(one)
        for calls in (first, later):
            ask_all(tuple(calls), _caller(self._ask_member, calls, look, progress), self._stop)

    def _ask_member(self, address: str, wanted: Sequence[Wanted], look: _Look, progress: Callable[[int], None]) -> None:
        with MemberAsked(address, self._access, self._stop) as member:
            due_s = time.monotonic()
            for one in wanted:
                if self._stop.wait(max(0.0, due_s - time.monotonic())):
                    return
                due_s = max(due_s, time.monotonic()) + 1 / CALLS_PER_S
                decision = look.decisions[one] or Decision()
                source = decision.source if look.held[address][one].address == decision.owner else ""
                if reason := member.heal(one, source, decision.instances):
                    self.many.refused[address] = reason
                progress(1)


def _caller(
    ask: Callable[[str, Sequence[Wanted], _Look, Callable[[int], None]], None],
    calls: Mapping[str, Sequence[Wanted]],
    look: _Look,
    progress: Callable[[int], None],
) -> Callable[[str], None]:
    return lambda address: ask(address, calls[address], look, progress)


def _silent(_count: int) -> None:
    """Show no progress: the calls were counted before."""


def _decision(held: list[Held]) -> Decision | None:
    return decide(held) if any(one.is_known or one.instances for one in held) else None


def _outcome(wanted: Wanted, decision: Decision | None) -> HealOutcome:
    if decision is None:
        return HealOutcome(wanted, is_gone=True)
    return HealOutcome(wanted, decision.departures, blocked=decision.blocked, notes=decision.notes)
