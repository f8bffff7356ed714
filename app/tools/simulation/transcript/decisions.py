"""Decisions: entries of the transcript for the decisions of one member's engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from app.tools.simulation.transcript.entry import KEYS_MAX, Trace, What
from distro.model.ports import DistroObserver
from distro.model.types import NO_VERSION, DistroKey, Received, Version

NAMED_MAX = 6
"""The most keys that a line names."""


class Decisions(DistroObserver):
    """Writes down each decision with its rule, as the deciding code reports it."""

    def __init__(self, trace: Trace, address: str) -> None:
        self._trace = trace
        self._address = address

    def decided(
        self, key: DistroKey, sender: str, received: Version, stored: Version | None, rule: str, reason: str, done: str
    ) -> None:
        over = f" over {stored.to_text()}" if stored is not None and stored != received else ""
        came = "without a version" if received == NO_VERSION else received.to_text()
        text = f"{key.key} {came}{over}: {done}"
        why = f"{rule}: {reason}"
        self._trace(
            self._address, text, What.DECIDE, peer=sender, incoming=True, keys=(key.key,), rule=why,
            minor=stored == received and rule == "R3",
        )  # fmt: skip

    def had(self, resource_type: str, received: Mapping[str, Version], stored: Mapping[str, Version]) -> None:
        for name, version in stored.items():
            came = received[name]
            over = f" under {version.to_text()}" if version != came else ""
            done = "refused" if version != came else "kept"
            text = f"{name} {came.to_text()}{over}: {done}"
            rule = "R3: this member had a state of that version before"
            self._trace(self._address, text, What.DECIDE, keys=(name,), rule=rule, minor=version == came)

    def compared(self, resource_type: str, source: str, equal: int, wanted: Collection[str], answer: Received) -> None:
        lacking = {name: f"has {version.to_text()}" for name, version in answer.refused.items()}
        parts = [f"{equal} keys equal"]
        if wanted:
            parts.append(f"lacks {named(wanted)}")
        if lacking:
            parts.append(f"answers that it {', '.join(f'{has} of {name}' for name, has in first(lacking))}")
        keys = (*wanted, *lacking)[:KEYS_MAX]
        text = f"compares a round of {resource_type}: {'; '.join(parts)}"
        self._trace(
            self._address, text, What.VERIFY, peer=source, incoming=True, keys=keys, minor=not keys
        )  # fmt: skip

    def fetches(self, peer: str, keys: Collection[str], rule: str, reason: str) -> None:
        if not keys:
            return
        text = f"will fetch {named(keys)}"
        self._trace(
            self._address, text, What.FETCH, peer=peer, keys=tuple(keys)[:KEYS_MAX], rule=f"{rule}: {reason}"
        )  # fmt: skip

    def forgot(self, key: DistroKey, reason: str) -> None:
        self._trace(self._address, f"forgets {key.key}", What.FORGET, keys=(key.key,), rule=f"R6: {reason}")


def named(keys: Collection[str]) -> str:
    """Return the first keys, and how many more there are."""
    names = [name for name, _ in zip(keys, range(NAMED_MAX), strict=False)]
    more = f" and {len(keys) - NAMED_MAX} more" if len(keys) > NAMED_MAX else ""
    return ", ".join(names) + more


def first(parts: Mapping[str, str]) -> list[tuple[str, str]]:
    return list(parts.items())[:NAMED_MAX]
