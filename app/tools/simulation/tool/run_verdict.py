"""RunVerdict: the end of one run, and its description."""

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from app.tools.simulation.transcript.lines import clock_of, letter_of, line_of, short
from app.tools.simulation.transcript.recorder import RecordedWorld, Recorder
from app.tools.simulation.world.invariants import Broken

TEXT_MAX = 1_000
"""The most characters of a difference that are shown: a member may hold much."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The end of the run of one seed."""

    seed: int
    world: RecordedWorld | None
    """The world at the end of the run; None if it did not begin."""
    broken: Broken | None = None
    interrupted: bool = False
    """True if the run was stopped: the invariants held until then."""

    @property
    def word(self) -> str:
        """The verdict in one word."""
        return "BROKEN" if self.broken is not None else "INTERRUPTED" if self.interrupted else "HELD"

    def lines(self, recorder: Recorder, command: str) -> Iterator[str]:
        """Yield the verdict for people; ``command`` runs the seed again."""
        at = clock_of(self.world.now_ms) if self.world is not None else clock_of(0)
        yield f"{self.word}: seed {self.seed}, {at} of virtual time, {self.world.events if self.world else 0} events"
        if self.broken is None:
            yield from self._checks()
            return
        broken = self.broken
        yield f"invariant: {broken.invariant.title}: {broken.invariant.meaning}"
        yield f"what:      {_cut(short(broken.text))}"
        for member, held in broken.states.items():
            yield f"{letter_of(member) + ' holds':10} {_cut(short(held))}"
        if broken.key:
            yield f"key:       {short(broken.key)}; the last events that touched it:"
            yield from (f"    {line_of(entry)}" for entry in recorder.last_of(broken.key))
        yield f"again:     {command}"

    def _checks(self) -> Iterator[str]:
        checked = self.world.checked if self.world is not None else {}
        for title, times in sorted(checked.items()):
            yield f"    {title}: checked {times} times"

    def json(self, command: str) -> str:
        """Return the verdict as a line of JSON."""
        world, broken = self.world, self.broken
        fields: dict[str, object] = {
            "verdict": self.word.lower(),
            "seed": self.seed,
            "at_ms": world.now_ms if world is not None else 0,
            "events": world.events if world is not None else 0,
            "checked": dict(sorted(world.checked.items())) if world is not None else {},
        }
        if broken is not None:
            fields |= {
                "invariant": broken.invariant.title,
                "text": _cut(broken.text),
                "key": broken.key,
                "states": {member: _cut(held) for member, held in broken.states.items()},
                "again": command,
            }
        return orjson.dumps(fields).decode()


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
