"""What differs between two looks at the same thing, in words (pure)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.command.asking.registry_client import Row
from app.command.asking.shown_values import address_of, metadata_text, short_service, text_of, weight_text

Facts = Mapping[str, str]
Looked = Mapping[str, Facts]
"""What one look saw: by name its facts, each of which is a text."""


class SeenHappening(StrEnum):
    """What happened to something between two looks; the value is the first word of its line."""

    THERE = "there"
    APPEARED = "appeared"
    WENT = "went"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class SeenChange:
    """One thing that differs; ``before`` is empty for what appeared, ``now`` for what went."""

    happening: SeenHappening
    name: str
    before: Facts
    now: Facts

    def text(self) -> str:
        """The change in words: for what changed the facts that did, for others all of them."""
        if self.happening is not SeenHappening.CHANGED:
            facts = self.now or self.before
            return ", ".join(f"{name} {value}" for name, value in facts.items() if value != "-")
        return ", ".join(
            f"{name} {self.before.get(name, '-')} -> {value}"
            for name, value in self.now.items()
            if value != self.before.get(name)
        )


def changes(before: Looked, now: Looked) -> Iterator[SeenChange]:
    """Yield what went, what appeared and what changed, each by name."""
    for name in sorted(before.keys() - now.keys()):
        yield SeenChange(SeenHappening.WENT, name, before[name], {})
    for name in sorted(now):
        if name not in before:
            yield SeenChange(SeenHappening.APPEARED, name, {}, now[name])
        elif now[name] != before[name]:
            yield SeenChange(SeenHappening.CHANGED, name, before[name], now[name])


def seen_instance(service: str, row: Row) -> tuple[str, Facts]:
    """Name and facts of an instance. The time of its last beat is none: it differs at each look."""
    name = f"{service} {address_of(row)} ({text_of(row, 'clusterName')})"
    return name, {
        "health": "healthy" if row.get("healthy") is True else "UNHEALTHY",
        "enabled": "yes" if row.get("enabled") is True else "no",
        "weight": weight_text(row),
        "kind": "ephemeral" if row.get("ephemeral") is True else "persistent",
        "metadata": metadata_text(row.get("metadata")),
    }


def seen_service(row: Row) -> tuple[str, Facts]:
    """Name and facts of a service, as a list of services has them."""
    name = short_service(text_of(row, "groupName", ""), text_of(row, "name"))
    return name, {"instances": text_of(row, "ipCount"), "healthy": text_of(row, "healthyInstanceCount")}
