"""The states and lists that the members of the demonstration tell, and what changed since the last look."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.tools.demo.demo_clients import INSTANCES, UNANSWERED, called
from app.tools.demo.demo_members import DemoMember

NODES = "/v1/core/cluster/nodes"
UP = "UP"
Lists = Mapping[str, bool]
"""The health of each instance, by service and address."""


@dataclass(frozen=True, slots=True)
class View:
    """One look at all members that answer, by their addresses."""

    states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The states of all members, as each of them sees them."""
    lists: Mapping[str, Lists] = field(default_factory=dict)

    @property
    def agree(self) -> bool:
        """Return whether all that answer list the same."""
        listed = list(self.lists.values())
        return bool(listed) and all(one == listed[0] for one in listed)

    def all_say(self, address: str, state: str) -> bool:
        """Return whether every other member that answers sees a member in this state."""
        said = [seen.get(address) for observer, seen in self.states.items() if observer != address]
        return bool(said) and all(one == state for one in said)

    def all_up(self, members: Sequence[DemoMember]) -> bool:
        """Return whether all members answer, and see each other UP."""
        return len(self.states) == len(members) and all(self.all_say(one.address, UP) for one in members)

    def health(self, name: str) -> set[bool | None]:
        """Return the health of an instance at each member that answers; None where it is not listed."""
        return {listed.get(name) for listed in self.lists.values()}


def look(members: Sequence[DemoMember], services: Sequence[str]) -> View:
    """Ask all members that run."""
    states, lists = dict[str, Mapping[str, str]](), dict[str, Lists]()
    for member in members:
        if not member.serves:
            continue
        try:
            nodes = called(member.address, "GET", NODES)["data"]
            listed = {
                f"{service} {one['ip']}:{one['port']}": one["healthy"]
                for service in services
                for one in called(member.address, "GET", INSTANCES, {"serviceName": service})["hosts"]
            }
        except UNANSWERED:
            continue
        states[member.address] = {one["address"]: one["state"] for one in nodes}
        lists[member.address] = listed
    return View(states, lists)


def changes(before: View, after: View) -> Iterator[str]:
    """Say what changed between two looks, a line each."""
    for observer, seen in after.states.items():
        known = before.states.get(observer, seen)
        for address, state in seen.items():
            if known.get(address) != state:
                yield gettext("%(observer)s sees %(member)s %(state)s", observer=observer, member=address, state=state)
    old, new = _first(before.lists), _first(after.lists)
    if old is None or new is None:
        return
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield gettext(_WORDS[new.get(name)], instance=name)


_WORDS: Mapping[Any, str] = {
    True: N_("%(instance)s is listed as healthy"),
    False: N_("%(instance)s is listed as unhealthy"),
    None: N_("%(instance)s is no longer listed"),
}


def _first(lists: Mapping[str, Lists]) -> Lists | None:
    return next(iter(lists.values()), None)
