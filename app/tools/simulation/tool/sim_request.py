"""SimRequest: the options of ``rollcall simulate``, checked."""

import argparse
import re
import shlex
from dataclasses import dataclass, fields
from typing import Any

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.scenarios.cases import CASES, WORLDS, RuleCase
from app.tools.simulation.scenarios.large import LargeSizes, grow
from app.tools.simulation.scenarios.scenarios import SimCourse, take_course
from app.tools.simulation.transcript.lines import Selection, address_of
from app.tools.simulation.world import faults
from app.tools.simulation.world.linked_world import LinkedMember, LinkedWorld
from app.tools.simulation.world.sim_connections import ConnectedMember
from app.tools.simulation.world.world import World

COURSE = "course"
"""The scenario that is built from options; the others set everything themselves."""
LARGE = "large"
RULES = {case.name: case for case in CASES}
MEANINGS = {
    COURSE: "clients, operators and faults as in the options (the default)",
    "members": "the world of the tests: all faults, sizes from the seed, some members with their lists on disk",
    "clients": "gRPC clients with connections, and all faults",
    "mixed": "one member is real Nacos 1.4",
    "links": "two to four linked clusters, with faults in them and between them",
    LARGE: "100,000 services and 10,000 records, in a world where work takes time: no tick over 50 ms; takes minutes",
}
BOUNDS = {
    "seed": (0, 2**63 - 1),
    "runs": (1, 100_000),
    "members": (2, 9),
    "seconds": (1, 3_600),
    "services": (1, 1_000),
    "instances": (1, 5_000),
    "records": (0, 500),
    "writes": (0, 20_000),
    "from": (0, 10**9),
    "to": (0, 10**9),
}
LARGE_BOUNDS = {"services": (1, 200_000), "records": (0, 20_000)}
LARGE_OPTIONS = {"members", "services", "records"}
NAME = re.compile(r"[A-Z]|client-\d+|operator-\d+|10\.0\.0\.\d+:8848")


class OptionError(Exception):
    """An option is wrong; the text names it and the allowed values."""


@dataclass(frozen=True, slots=True)
class SimRequest:
    """The runs to make, and the events of them to print."""

    seed: int
    runs: int
    scenario: str
    without: str
    """The rule that is switched off, by its name in ``CASES``; empty for none."""
    course: SimCourse
    large: LargeSizes
    course_options: tuple[str, ...]
    """The options of the course, or of the large scenario, that were given, for the command that runs it again."""
    selection: Selection
    json: bool
    quiet: bool

    def command(self, seed: int) -> str:
        """Return the command that shows one seed again."""
        words = ["rollcall", "simulate", "--seed", str(seed)]
        words += ["--scenario", self.scenario] if self.scenario != (self.without or COURSE) else []
        words += ["--without", self.without] if self.without else []
        return shlex.join([*words, *self.course_options])

    def run(self, seed: int) -> World | LinkedWorld:
        """Run one seed to its end; raises ``Broken``."""
        member_class = RULES[self.without].without_rule if self.without else None
        if self.scenario == COURSE:
            return take_course(self.course, seed, member_class or SimMember)
        if self.scenario == LARGE:
            return grow(self.large, seed, member_class or SimMember)
        if self.scenario in RULES:
            case: RuleCase = RULES[self.scenario]
            return case.trial(seed, member_class or case.with_rule)
        run = WORLDS[self.scenario]
        return run(seed, member_class=member_class) if member_class else run(seed)


def read_request(options: argparse.Namespace) -> SimRequest:
    """Check the options.

    Raises:
        OptionError: one of them is out of its bounds, unknown, or cannot be combined with another.
    """
    bounds = BOUNDS | LARGE_BOUNDS if options.scenario == LARGE else BOUNDS
    for name, allowed in bounds.items():
        _check_bounds(name, getattr(options, f"{name}_ms" if name in ("from", "to") else name), allowed)
    without = options.without or ""
    if without and without not in RULES:
        raise OptionError(f"--without {without}: unknown rule; allowed: {', '.join(RULES)}")
    scenario = options.scenario or without or COURSE
    if scenario not in MEANINGS and scenario not in RULES:
        raise OptionError(f"--scenario {scenario}: unknown scenario; allowed: {', '.join([*MEANINGS, *RULES])}")
    if without:
        _check_pair(scenario, without)
    given: dict[str, Any] = {
        one.name: getattr(options, one.name, None) for one in fields(SimCourse) if one.name != "span_ms"
    }
    given["seconds"] = options.seconds
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if scenario != COURSE and not (scenario == LARGE and name in LARGE_OPTIONS):
            raise OptionError(
                f"--{name} cannot be combined with the scenario {scenario}, which sets it; allowed: --scenario {COURSE}"
            )
    member = options.member or ""
    if member and not NAME.fullmatch(member):
        raise OptionError(f"--member {member}: not the name of a member (A, B, ...) or client (client-1, ...)")
    if options.to_ms is not None and options.to_ms < (options.from_ms or 0):
        raise OptionError(f"--to {options.to_ms} is before --from {options.from_ms}")
    selection = Selection(options.from_ms or 0, options.to_ms, options.key or "", address_of(member), options.all)
    words = tuple(word for name, value in given.items() for word in (f"--{name}", str(value)))
    return SimRequest(
        options.seed,
        options.runs,
        scenario,
        without,
        _course(given if scenario == COURSE else {}),
        LargeSizes(**(given if scenario == LARGE else {})),
        words,
        selection,
        options.json,
        options.quiet,
    )


def _check_bounds(name: str, value: int | None, allowed: tuple[int, int]) -> None:
    low, high = allowed
    if value is not None and not low <= value <= high:
        raise OptionError(f"--{name} {value} is out of bounds; allowed: {low} to {high}")


def _check_pair(scenario: str, without: str) -> None:
    """Check that a scenario fits a switched-off rule: connections and links need their members, a rule its world."""
    member_class = RULES[without].without_rule
    needed = {"clients": ConnectedMember, "links": LinkedMember}.get(scenario, SimMember)
    if not issubclass(member_class, needed):
        raise OptionError(
            f"--without {without} cannot be combined with --scenario {scenario}; allowed: {COURSE}, members, {without}"
        )
    if scenario in RULES and scenario != without:
        raise OptionError(
            f"--scenario {scenario} shows another rule than --without {without}; allowed: {COURSE}, members, {without}"
        )


def _course(given: dict[str, Any]) -> SimCourse:
    values = dict(given)
    if "seconds" in values:
        seconds = values.pop("seconds")
        assert isinstance(seconds, int)
        values["span_ms"] = seconds * 1_000
    if "faults" in values:
        values["faults"] = _faults(str(values["faults"]))
    return SimCourse(**values)


def _faults(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return tuple(faults.NAMED) if text == "all" else ()
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in faults.NAMED:
            raise OptionError(f"--faults {name!r}: unknown fault; allowed: none, all, {', '.join(faults.NAMED)}")
    return names
