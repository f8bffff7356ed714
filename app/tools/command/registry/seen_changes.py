"""The differences between two looks at the same thing, in words (pure)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.tools.command.asking.registry_client import Row
from app.tools.command.asking.shown_values import address_of, metadata_text, short_service, text_of, weight_text

Facts = Mapping[str, str]
Looked = Mapping[str, Facts]
"""The things that one look saw: the facts by name, each of which is a text."""


class SeenHappening(StrEnum):
    """The kind of a difference between two looks; the value is the first word of its line."""

    THERE = "there"
    APPEARED = "appeared"
    WENT = "went"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class SeenChange:
    """One thing that differs; ``before`` is empty if it appeared, ``now`` if it went."""

    happening: SeenHappening
    name: str
    before: Facts
    now: Facts

    def text(self) -> str:
        """Return the change in words: the changed facts of a thing that changed, else all facts."""
        if self.happening is not SeenHappening.CHANGED:
            facts = self.now or self.before
            return ", ".join(f"{name} {value}" for name, value in facts.items() if value != "-")
        return ", ".join(
            f"{name} {self.before.get(name, '-')} -> {value}"
            for name, value in self.now.items()
            if value != self.before.get(name)
        )


def changes(before: Looked, now: Looked) -> Iterator[SeenChange]:
    """Yield the things that went, appeared or changed, by name."""
    for name in sorted(before.keys() - now.keys()):
        yield SeenChange(SeenHappening.WENT, name, before[name], {})
    for name in sorted(now):
        if name not in before:
            yield SeenChange(SeenHappening.APPEARED, name, {}, now[name])
        elif now[name] != before[name]:
            yield SeenChange(SeenHappening.CHANGED, name, before[name], now[name])


def seen_instance(service: str, row: Row) -> tuple[str, Facts]:
    """Return name and facts of an instance, without the time of its last beat, which differs at each look."""
    name = f"{service} {address_of(row)} ({text_of(row, 'clusterName')})"
    return name, {
        "health": "healthy" if row.get("healthy") is True else "UNHEALTHY",
        "enabled": "yes" if row.get("enabled") is True else "no",
        "weight": weight_text(row),
        "kind": "ephemeral" if row.get("ephemeral") is True else "persistent",
        "metadata": metadata_text(row.get("metadata")),
    }


def seen_service(row: Row) -> tuple[str, Facts]:
    """Return name and facts of a service, as a list of services has them."""
    name = short_service(text_of(row, "groupName", ""), text_of(row, "name"))
    return name, {"instances": text_of(row, "ipCount"), "healthy": text_of(row, "healthyInstanceCount")}
