"""A heal as text: each member's state, the right state and the reason, as a table or as lines of JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.languages.phrases import shown
from app.tools.audit.compare.table import MORE_IN_JSON, aligned
from app.tools.audit.heal.decide import Departure
from app.tools.audit.heal.healing import Look
from app.tools.printable import json_line

ROWS_MAX = 200
"""The most departures in a table; further ones are counted. JSON has all."""


def state_lines(title: str, look: Look) -> Iterator[str]:
    """Yield a table of the members: their instances of the service, its version, and the owner that they name."""
    rows = []
    for address, one in look.held.items():
        healthy = sum(row.healthy for row in one.instances.values())
        role = gettext("owner") if one.address == look.decision.owner else ""
        known = one.version or ("-" if one.is_known else gettext("does not know the service"))
        rows.append([one.address, role, str(len(one.instances)), str(healthy), known, one.owner or "-"])
        if one.address != address:
            rows[-1][0] = gettext("%(member)s (at %(address)s)", member=one.address, address=address)
    for address, reason in look.absent.items():
        rows.append([address, "", "", "", gettext("does not answer: %(reason)s", reason=shown(reason)), ""])
    yield title
    head = [N_("MEMBER"), "", N_("INSTANCES"), N_("HEALTHY"), N_("VERSION"), N_("NAMES OWNER")]
    yield from aligned(map(gettext, head), rows, "  ")


def departure_lines(departures: Sequence[Departure]) -> Iterator[str]:
    """Yield a table of the departures from the right state."""
    rows = [
        [
            one.finding_class.value,
            one.what,
            one.member,
            shown(one.found),
            shown(one.expected),
            shown(one.found_version or ""),
            shown(one.expected_version or ""),
        ]
        for one in departures[:ROWS_MAX]
    ]
    if not rows:
        return
    head = [N_("CLASS"), N_("WHAT"), N_("MEMBER"), N_("HOLDS"), N_("RIGHT"), N_("VERSION"), N_("RIGHT VERSION")]
    yield from aligned(map(gettext, head), rows, "  ")
    if len(departures) > ROWS_MAX:
        yield f"  {gettext(MORE_IN_JSON, count=len(departures) - ROWS_MAX)}"
    for rule in dict.fromkeys(one.rule for one in departures):
        classes = ", ".join(dict.fromkeys(one.finding_class.value for one in departures if one.rule == rule))
        yield f"  {classes}: {shown(rule)}"


def json_state(stage: str, look: Look) -> Iterator[str]:
    """Yield lines of JSON: one for each member, and one for each departure."""
    for address, one in look.held.items():
        value = {
            "stage": stage,
            "member": one.address,
            "asked": address,
            "is_owner": one.address == look.decision.owner,
            "owner": one.owner,
            "version": one.version,
            "instances": len(one.instances),
        }
        yield json_line(value)
    for address, reason in look.absent.items():
        yield json_line({"stage": stage, "member": address, "asked": address, "error": reason})


def json_departures(stage: str, departures: Sequence[Departure]) -> Iterator[str]:
    """Yield lines of JSON, one for each departure."""
    for one in departures:
        yield json_line({"stage": stage, **asdict(one)})
