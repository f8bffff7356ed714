"""The advice to an operator about a verdict: a few steps in words, with command lines for this very night."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.languages.catalogues import N_
from app.languages.phrases import phrase
from app.rows.summary import Summary, Verdict
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.report import shell
from app.tools.audit.report.nights import last_judged

ADDRESSES_MAX = 3
_REASONS = (
    (
        r"the dump (failed|took)",
        N_("There is no dump of this run: the text above and the log of the dump say why."),
        True,
    ),
    (
        r"no (complete )?dump",
        N_("There is no complete dump of this night: the log of the dump says why."),
        True,
    ),
    (
        r"only \d+ of \d+ members.*: round \d+, \S+/part-",
        N_(
            "Files of the dump are damaged, so too little of it is left to compare. Check the disk on which the dumps "
            "are."
        ),
        True,
    ),
    (
        r"only \d+ of \d+ members",
        N_("Too few members answered. Check that they run and can be reached from here."),
        True,
    ),
    (
        r"compares at most \d+",
        N_("A check compares no more members than that: dump fewer of them into this folder."),
        True,
    ),
    (
        r"has no package|PySpark is not installed",
        N_("The Python of the check lacks a package: install the extra audit."),
        False,
    ),
    (r"Java \d+ or newer", N_("Spark needs a Java: install the extra audit, with its Java."), False),
    (
        r"cannot write|cannot be written|cannot be made|No space left",
        N_("Files cannot be written: check the permissions of the folder and the free space on its disk."),
        False,
    ),
    (
        r"temporary file|name one that does in the variable TMPDIR",
        N_("Name a folder that can be written in TMPDIR."),
        False,
    ),
    (r"ended by a signal", N_("The check was stopped, for example by a time-out. Give it more time or memory."), False),
    (
        r"Spark failed|Spark did not start|the check failed",
        N_("The check itself failed; see its log. The dump may be sound."),
        False,
    ),
    (r"suppress", N_("Correct the file of suppressions. The dump may be sound."), False),
)
"""Reasons of a night without a verdict, what to do, and whether the dump must be taken again.

The first reason found in the text applies.
"""
_OF_CLASSES = {
    FindingClass.OWNER: N_(
        "Members do not agree on the owner of a service. If they list the same members, that ends within 10 s; else "
        "give all the same member list, and check that each reaches each. These services:"
    ),
    FindingClass.DRIFT: N_(
        "A member of Nacos shows clients other data than it replicates: restart that member, which loads the data of "
        "the others. These instances:"
    ),
    FindingClass.STALE: N_(
        "The owner keeps instances that fell silent. With nacos.naming.expireInstance=false it removes none: set it to "
        "true, and restart that member. If the switch healthCheckEnabled is false, run `rollcall switches "
        "healthCheckEnabled true`. Otherwise see the log of that member, and restart it. These instances:"
    ),
    FindingClass.RECORD: N_(
        "A switch, a namespace, an override or a user differs. Members repair that within ten minutes. If one still "
        "differs tomorrow, write it again, even with its present value: it gets a new version, which all members take. "
        "For a switch run `rollcall switches NAME VALUE`, for a namespace choose Rename in the console. These records:"
    ),
    FindingClass.CLIENT: N_(
        "A gRPC client differs. A copy that its own member does not know is removed after three minutes. Heal the "
        "services that these clients publish:"
    ),
    FindingClass.LINK: N_(
        "A link does not show what the other cluster has. Look whether it is silent or refuses services (`rollcall "
        "links`), and whether its user may read them. When it is heard again, have it fetch again what still differs:"
    ),
    FindingClass.DUPLICATE: N_(
        "One address is registered twice. If that is a mistake, stop the client that registers it in the wrong "
        "service, and deregister it there (`rollcall deregister SERVICE IP:PORT`). If not, suppress the finding "
        "(--suppressions), or ignore the class. These addresses:"
    ),
}
"""The steps about classes that no heal of a finding's service ends; each comes with a command about its findings."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, in English until it is shown; ``command``: the line that does it, if a line can."""

    text: str
    command: str | None = None
    is_folded: bool = False
    """True if the command is long, and shown only on request."""


def steps_for(summary: Summary, earlier: Sequence[Summary]) -> list[Step]:
    """Return the steps to take about the verdict, in order; none if the members agree."""
    match summary.verdict:
        case Verdict.AGREED:
            return []
        case Verdict.UNJUDGED:
            return _when_unjudged(summary, last_judged(summary, earlier))
        case Verdict.DIVERGENT:
            return [*_on_members(summary), *_on_services(summary), *_again(summary)]


def _when_unjudged(summary: Summary, last: Summary | None) -> list[Step]:
    found = next((found for found in _REASONS if re.search(found[0], summary.line)), None)
    advice, is_sound = (found[1], not found[2]) if found else (N_("See the log of the check."), False)
    steps = [Step(phrase(advice))]
    of = last or summary  # which knows the folders of its check, and with an earlier verdict the members, too
    checked = shell.check(of, summary.night)
    if checked is None:
        again = N_("Then check the night again.") if is_sound else N_("Then take the dump again, and check it.")
        unknown = phrase("(No earlier night is known here whose folders this page could name.)")
        return [*steps, Step(phrase("%(step)s %(note)s", step=phrase(again), note=unknown))]
    if not is_sound:
        text = N_("Take the dump again, of the members of the last night:") if last else N_("Take the dump again:")
        dumped = shell.dump(of, summary.night)
        steps.append(Step(phrase(text if dumped else N_("Take the dump again, of all members.")), dumped))
    return [*steps, Step(phrase("Check the night again:"), checked)]


def _on_members(summary: Summary) -> list[Step]:
    """Return the steps about members as a whole: absent ones, damaged dumps, member lists that differ."""
    steps = []
    if absent := _members_with(summary, FindingClass.ABSENT_MEMBER):
        text = N_("Check that %(members)s runs and can be reached from here.")
        steps.append(Step(phrase(text, members=_listed(absent))))
    if damaged := _members_with(summary, FindingClass.CORRUPT):
        text = N_("The dump of %(members)s is damaged: check the disk on which the dumps are.")
        steps.append(Step(phrase(text, members=_listed(damaged))))
    if summary.findings.get(FindingClass.MEMBERSHIP):
        text = N_(
            "Give all members the same member list (cluster.conf, or their start options): it decides on owners. If "
            "only the states in the lists differ, check the network between the members."
        )
        steps.append(Step(phrase(text)))
    return steps


def _again(summary: Summary) -> list[Step]:
    """Return the last steps of a night of which a member could not be compared: its dump and its check, once more."""
    if not any(_members_with(summary, one) for one in (FindingClass.ABSENT_MEMBER, FindingClass.CORRUPT)):
        return []
    dumped, checked = shell.dump(summary, summary.night), shell.check(summary, summary.night)
    if dumped is None or checked is None:
        return [Step(phrase("Then take the dump again, and check it."))]
    return [Step(phrase("Then take the dump again:"), dumped), Step(phrase("And check it:"), checked)]


def _members_with(summary: Summary, finding_class: FindingClass) -> list[str]:
    return [str(row.get("member")) for row in summary.by_member if row.get("finding_class") == finding_class]


def _listed(addresses: Sequence[str]) -> str:
    more, some = len(addresses) - ADDRESSES_MAX, ", ".join(addresses[:ADDRESSES_MAX])
    return phrase("%(names)s and %(count)s more", names=some, count=more) if more > 0 else some


def _on_services(summary: Summary) -> list[Step]:
    """Return the steps about the worst finding in a service, and about all findings like it."""
    explained = _explained(summary)
    of_services = [one for one in summary.groups if one.get("lasting") and one.get("service")]
    if not of_services:
        return explained
    steps = []
    looked = ((one, shell.compare(summary, one)) for one in of_services)
    if found := next(((one, line) for one, line in looked if line), None):
        text = N_("Show what differs in this service (now, without --dumps and --date):")
        if found[0] is of_services[0]:
            text = N_("Show what differs in the worst service (now, without --dumps and --date):")
        steps.append(Step(phrase(text), found[1]))
    steps += _healing(summary, of_services)
    steps += explained
    if not steps:
        text = N_("No command line is shown, because a name in it is shortened or has unprintable characters.")
        steps.append(Step(phrase(text)))
    return steps


def _explained(summary: Summary) -> list[Step]:
    """Return a step for each class found of ``_OF_CLASSES``."""
    found = ((one, text) for one, text in _OF_CLASSES.items() if summary.findings.get(one))
    return [Step(phrase(text), _command_about(summary, one)) for one, text in found]


def _command_about(summary: Summary, finding_class: FindingClass) -> str | None:
    healed = None
    if finding_class is FindingClass.CLIENT:
        healed = shell.heal_all(summary, finding_class)
    elif finding_class is FindingClass.LINK:
        healed = shell.heal_link(summary)
    return healed or shell.findings(summary, finding_class)


def _healing(summary: Summary, of_services: Sequence[Mapping[str, Any]]) -> list[Step]:
    to_heal = [one for one in of_services if one.get("finding_class") in shell.HEALABLE]
    if not to_heal:
        return []
    if not shell.can_heal(summary):
        return [Step(phrase("Rollcall cannot heal members of other software: restart the member that differs."))]
    healed = list(dict.fromkeys(line for one in to_heal if (line := shell.heal(summary, one))))
    if not healed:
        return []
    text = N_("Show what a heal would do to that service (without --dry-run, it does it):")
    steps = [Step(phrase(text), healed[0])]
    if len(healed) > 1 and (all_of_them := shell.heal_all(summary)):
        text = N_("Heal every service with such a finding, all in one gap (with --dry-run, it only shows them):")
        steps.append(Step(phrase(text), all_of_them, is_folded=True))
    return steps
