"""The course of a heal: look, look again, have the members exchange the service, and look until they agree."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import TypeVar

from app.languages.phrases import phrase, shown
from app.tools.audit.client.access import Access
from app.tools.audit.heal.decide import Decision, Departure, decide, lasting
from app.tools.audit.heal.reading import Answered, Held, NoAnswer, OtherKind, Wanted, ask_to_heal, read_member

ASK_AGAIN_S = 6.0
"""The time until members are asked again, as a fetch or a send may be lost; they refuse calls less than 2 s apart."""
LOOK_AGAIN_S = 1.0
MEMBERS_MAX = 64

T = TypeVar("T")


class CannotHeal(Exception):
    """The service cannot be healed; the text says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Look:
    """The answers of all members at about the same moment, and the decision that follows."""

    held: Mapping[str, Held]
    """The states by the address at which the member was asked."""
    absent: Mapping[str, str]
    """The members that did not answer, with the reason."""
    decision: Decision


@dataclass(slots=True)
class Course:
    """The record of a heal. ``left``: departures that remain at the end; ``late``: departures that did not last."""

    before: Look
    after: Look | None = None
    found: tuple[Departure, ...] = ()
    left: tuple[Departure, ...] = ()
    late: tuple[Departure, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    """The members that refused to exchange, with the reason."""


class Healing:
    """Calls to the members of one service, all at the same time."""

    def __init__(self, addresses: Sequence[str], access: Access, wanted: Wanted, stop: Event) -> None:
        """``stop``: ends pauses and further tries once it is set.

        Raises:
            CannotHeal: there are too many members, or fewer than two.
        """
        check_count(addresses)
        self._addresses = tuple(addresses)
        self._access = access
        self._wanted = wanted
        self._stop = stop

    def look(self) -> Look:
        """Ask all members for their states.

        Raises:
            CannotHeal: too few answered, one is of another kind or was named twice, or no member knows the service.
        """
        answers = ask_all(
            self._addresses, lambda address: read_member(address, self._access, self._wanted, self._stop), self._stop
        )
        held = {address: one for address, one in answers.items() if isinstance(one, Held)}
        refuse_others(answers)
        absent = {address: one.reason for address, one in answers.items() if isinstance(one, NoAnswer)}
        if len(held) < 2:
            reasons = "; ".join(f"{address}: {shown(reason)}" for address, reason in absent.items())
            raise CannotHeal(phrase("fewer than two members answered: %(reasons)s", reasons=reasons))
        own = [one.address for one in held.values()]
        if twice := next((address for address in own if own.count(address) > 1), None):
            raise CannotHeal(
                phrase(
                    "%(addresses)s are one member, %(member)s",
                    addresses=", ".join(one for one in held if held[one].address == twice),
                    member=twice,
                )
            )
        if not any(one.is_known or one.instances for one in held.values()):
            raise CannotHeal(
                phrase(
                    "no member has a service %(service)s in %(namespace)s; the full name is group@@name",
                    service=self._wanted.service,
                    namespace=self._wanted.namespace,
                )
            )
        return Look(held, absent, decide(list(held.values())))

    def heal(self, course: Course, within_s: float) -> None:
        """Have the members exchange the service until they agree, for ``within_s`` at most; note how it ended.

        Raises:
            CannotHeal: as ``look``.
        """
        began_s = time.monotonic()
        asked_s = -ASK_AGAIN_S
        look = course.before
        previous: tuple[Departure, ...] | None = None
        while True:
            passed_s = time.monotonic() - began_s
            if passed_s - asked_s >= ASK_AGAIN_S:
                asked_s = passed_s
                course.refused = self._ask(look)
            if self._stop.wait(LOOK_AGAIN_S):
                return
            look = course.after = self.look()
            now = look.decision.departures
            if not now and not look.decision.blocked:
                return
            if time.monotonic() - began_s >= within_s:
                course.left = now if previous is None else lasting(previous, now)
                course.late = tuple(one for one in now if one not in course.left)
                return
            previous = now

    def _ask(self, look: Look) -> dict[str, str]:
        """Have the owner fetch and send its part, then the others; return the refusals by address."""
        decision = look.decision
        owners = [address for address, one in look.held.items() if one.address == decision.owner]
        others = [address for address in look.held if address not in owners]

        def ask(address: str) -> str:
            source = decision.source if address in owners else ""
            return ask_to_heal(address, self._access, self._wanted, self._stop, source, decision.instances)

        told = {**ask_all(owners, ask, self._stop), **ask_all(others, ask, self._stop)}
        return {address: reason for address, reason in told.items() if reason}


def check_count(addresses: Sequence[str]) -> None:
    """Refuse a number of members that cannot be healed.

    Raises:
        CannotHeal: there are too many members, or fewer than two.
    """
    if not 2 <= len(addresses) <= MEMBERS_MAX:
        raise CannotHeal(
            phrase(
                "a heal needs 2 to %(most)s members; %(count)s given",
                most=MEMBERS_MAX,
                count=len(addresses),
            )
        )


def ask_all(addresses: Sequence[str], call: Callable[[str], T], stop: Event) -> dict[str, T]:
    """Return the results of ``call`` for all addresses, each on a separate thread; ``stop`` is set if one raises."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses), thread_name_prefix="heal") as pool:
        try:
            return dict(zip(addresses, pool.map(call, addresses), strict=True))
        except BaseException:
            stop.set()  # otherwise the pool would wait for calls that are no longer needed
            raise


def refuse_others(answers: Mapping[str, Answered]) -> None:
    """Refuse members of other software, which take no part in an exchange.

    Raises:
        CannotHeal: names the first of them.
    """
    for address, one in answers.items():
        if isinstance(one, OtherKind):
            raise CannotHeal(
                phrase(
                    "heal is for Rollcall members; %(address)s is %(name)s: examine it with `rollcall compare`, "
                    "and restart it, so that it loads the data of the others",
                    address=address,
                    name=one.name,
                )
            )
