"""``rollcall heal``: bring the members of a cluster together on services, by their own rules.

Exit codes: 0 they agree, 1 they still differ or one did not answer, 2 it could not be done, with the reason on stderr.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING

from app.languages.command_texts import gettext
from app.languages.phrases import phrase, reason_of
from app.tools.audit.client.access import (
    AccessError,
    add_access_options,
    add_member_options,
    duration_s,
    members_of,
    positive_duration_s,
)
from app.tools.audit.heal.heal_output import STAGES, print_end, print_lines, say
from app.tools.audit.report.night_options import add_night_options

if TYPE_CHECKING:
    from app.tools.audit.heal.decide import Departure
    from app.tools.audit.heal.healing import Healing, Look

AGREED, DIFFERENT, NOT_HEALED = 0, 1, 2
GAP_S, WITHIN_S = 15.0, 30.0


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "heal",
        help="bring Rollcall members together on services",
        description="Show the state of a service at each member and the right state by the rules, have the members "
        "exchange it, and check again; of many services, or of all with findings of a night, the outcome of each. The "
        "members only write by their own rules. Exit code 0: they agree; 1: they still differ, or one did not answer; "
        "2: the heal failed.",
    )
    parser.add_argument(
        "--service",
        metavar="NAME",
        action="append",
        default=[],
        help="group@@name, or a name in DEFAULT_GROUP; may be given several times",
    )
    add_night_options(parser)
    parser.add_argument("--namespace", metavar="NAMESPACE", help="its namespace (public)")
    parser.add_argument(
        "--link",
        metavar="NAME[=URL]",
        help="heal what this link brought: have the members fetch it again. It is compared with the servers of the "
        "link, or with this member of the other cluster",
    )
    add_member_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="only show the state of each member and the right state")
    parser.add_argument(
        "--gap",
        metavar="TIME",
        type=duration_s,
        default=GAP_S,
        help="heal differences that are still the same after this time; 0: do not check again (15s)",
    )
    parser.add_argument(
        "--within",
        metavar="TIME",
        type=positive_duration_s,
        default=WITHIN_S,
        help="the time within which they must agree (30s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show a bar (of many services, on a terminal)"
    )
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Heal services, print what was seen before and after, and return the exit code."""
    from app.tools.audit.client.http_client import CallError
    from app.tools.audit.dump.collect import listed_members
    from app.tools.audit.heal.healing import CannotHeal, Healing
    from app.tools.audit.heal.many_command import heal_many, wanted_services

    stop, options.began_s = Event(), time.monotonic()
    try:
        access, addresses, url_address = members_of(options)
        wanted, clients = ([], []) if options.link else wanted_services(options)
        if url_address:
            addresses = listed_members(url_address, access)
        if options.link:
            from app.tools.audit.heal.link_heal import heal_link

            return heal_link(options, addresses, access, stop)
        if len(wanted) == 1 and options.service:
            return _heal(options, Healing(addresses, access, wanted[0], stop), stop)
        return heal_many(options, addresses, access, wanted, clients, stop)
    except CallError as error:
        return _could_not(phrase("no member list of %(server)s: %(error)s", server=options.from_cluster, error=error))
    except (AccessError, CannotHeal) as error:
        return _could_not(reason_of(error))
    except BrokenPipeError:
        # The reader, such as head, has read enough; the rest of the buffer is dropped without complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIFFERENT
    except KeyboardInterrupt:
        stop.set()
        return _could_not(phrase("interrupted before the members agreed; the exchanges under way continue"))


def _heal(options: argparse.Namespace, healing: "Healing", stop: Event) -> int:
    from app.tools.audit.heal.decide import lasting
    from app.tools.audit.heal.healing import Course

    look = healing.look()
    found = look.decision.departures
    if found and options.gap and not stop.wait(options.gap):
        again = healing.look()
        look, found = again, lasting(found, again.decision.departures)
    course = Course(look, found=found)
    course.late = tuple(one for one in look.decision.departures if one not in found)
    _show(options, "before", look, found)
    _tell_late(course.late)
    for note in look.decision.notes:
        say(note)
    if look.decision.blocked:
        return _end(options, look, phrase("not healed: %(reason)s", reason=look.decision.blocked), DIFFERENT)
    if not found:
        return _end(options, look, phrase("the members agree"), AGREED)
    if options.dry_run:
        return _end(options, look, phrase("nothing was done (--dry-run)"), DIFFERENT)
    healing.heal(course, options.within)
    after = course.after or look
    _show(options, "after", after, course.left)
    _tell_late(course.late)
    for address, reason in course.refused.items():
        say(phrase("%(address)s does not exchange it: %(reason)s", address=address, reason=reason))
    if after.decision.blocked:
        return _end(options, after, phrase("not healed: %(reason)s", reason=after.decision.blocked), DIFFERENT)
    if course.left:
        text = phrase(
            "differences that remain: %(count)s (before: %(before)s). The rules do not exchange them. If "
            "no other member accepts the state of a member, restart that one: it then loads the data of "
            "the others",
            count=len(course.left),
            before=len(found),
        )
        return _end(options, after, text, DIFFERENT)
    return _end(options, after, phrase("healed, differences: %(count)s", count=len(found)), AGREED)


def _show(options: argparse.Namespace, stage: str, look: "Look", departures: "Sequence[Departure]") -> None:
    """Print what the members hold and where they depart; ``stage``: before or after."""
    from app.tools.audit.heal.heal_table import departure_lines, json_departures, json_state, state_lines

    if options.json:
        print_lines(json_state(stage, look))
        print_lines(json_departures(stage, departures))
    else:
        print_lines(state_lines(gettext(STAGES[stage]), look))
        print_lines(departure_lines(departures))


def _tell_late(late: "tuple[Departure, ...]") -> None:
    if late:
        say(phrase("%(count)s more differences were still changing, and do not count", count=len(late)))


def _end(options: argparse.Namespace, look: "Look", text: str, code: int) -> int:
    for address in look.absent:
        say(phrase("%(address)s did not answer, so it is unknown whether it agrees", address=address))
    if look.absent and code == AGREED:
        code, text = DIFFERENT, phrase("among the members that answered: %(text)s", text=text)
    print_end(options, text, code)
    return code


def _could_not(text: str) -> int:
    say(text)
    return NOT_HEALED
