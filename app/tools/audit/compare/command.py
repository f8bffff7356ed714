"""``rollcall compare``: the differences between two members or all of a cluster, running ones or those of a dump.

Exit codes: 0 same, 1 different, 2 they could not be compared, with the reason in a line on stderr.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.languages.phrases import phrase, reason_of, shown
from app.tools.audit.client.access import AccessError, add_access_options, duration_s
from app.tools.printable import write_note

if TYPE_CHECKING:
    from app.tools.audit.compare.compare import Difference
    from app.tools.audit.compare.input import Reading
    from app.tools.audit.compare.table import Tally

SAME, DIFFERENT, NOT_COMPARED = 0, 1, 2
GAP_S = 15.0
NOTES_MAX = 5


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "compare",
        help="show how members differ",
        description="Show how two members, or all of a cluster, differ, running or from a dump. Exit code 0: they "
        "agree; 1: they differ; 2: they could not be compared.",
    )
    parser.add_argument(
        "a",
        metavar="A",
        nargs="?",
        help="a member: host:port as in the dump, or the address or URL of a running one; without A and B, the "
        "configured server and each other member of its cluster",
    )
    parser.add_argument("b", metavar="B", nargs="?", help="the other member")
    parser.add_argument("--service", metavar="NAME", help="only this service: group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("--namespace", metavar="NAMESPACE", help="only this namespace; the default namespace is public")
    parser.add_argument(
        "--lasting", action="store_true", help="only differences in both rounds; also for the exit code"
    )
    parser.add_argument("--json", action="store_true", help="print each difference as one line of JSON")
    parser.add_argument("--dumps", metavar="URI", help="take the rows from the dumps in this folder or at this URI")
    parser.add_argument("--date", metavar="DATE", help="the night of the dump (the latest)")
    parser.add_argument(
        "--link",
        metavar="NAME",
        help="compare the instances that this link brought to A with those registered at B, a member of the other "
        "cluster",
    )
    parser.add_argument(
        "--gap",
        metavar="TIME",
        type=duration_s,
        default=GAP_S,
        help="if running members differ, ask again after this time to show lasting differences; 0: do not (15s)",
    )
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare two members, print their differences, and return the exit code."""
    from app.tools.audit.compare.input import CannotCompare, Reading
    from app.tools.audit.compare.table import Tally

    reading, tally, failed = Reading.of(options.service, options.namespace), Tally(), 0
    try:
        pairs = _pairs(options)
        for options.a, options.b in pairs:
            try:
                with contextlib.ExitStack() as open_until_shown:
                    a, b, differences = _differences(options, reading, open_until_shown)
                    if options.lasting:
                        differences = _lasting(differences)
                    _show(options, tally, differences, a, b)
            except CannotCompare as error:
                _say(reason_of(error))
                failed += 1
    except (CannotCompare, AccessError) as error:
        _say(reason_of(error))
        return NOT_COMPARED
    except BrokenPipeError:
        # The reader, such as head, has enough; the rest of the buffer is dropped without complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DIFFERENT
    if failed < len(pairs) and not options.json:
        sys.stdout.write(f"{tally.text()}\n")
    for text in reading.left_out:
        _say(phrase("not compared: %(text)s", text=text))
    for note in reading.notes[:NOTES_MAX]:
        _say(note)
    if (more := len(reading.notes) - NOTES_MAX) > 0:
        _say(phrase("the same of %(count)s more files", count=more))
    if failed == len(pairs):
        return NOT_COMPARED
    if tally.total:
        return DIFFERENT
    if options.service and not reading.has_rows:
        _say(phrase("neither member has a service %(service)s; the full name is group@@name", service=reading.service))
        return NOT_COMPARED
    return NOT_COMPARED if reading.notes or failed else SAME


def _pairs(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the pairs of members to compare, as the options name them or the configured server lists them."""
    if options.dumps is not None:
        return [(options.a, options.b)]
    from app.tools.audit.compare.live import member_pairs

    return member_pairs(options)


def _differences(
    options: argparse.Namespace, reading: "Reading", stack: contextlib.ExitStack
) -> "tuple[str, str, Iterator[Difference]]":
    """Return the addresses of both members, and their differences; ``stack`` holds the rows and must stay open."""
    from app.tools.audit.compare.input import CannotCompare

    if options.dumps is None:
        from app.tools.audit.compare.live import live_differences

        if options.date is not None:
            raise CannotCompare(phrase("--date needs --dumps"))
        return live_differences(options, reading, stack)
    return _of_dump(options, reading)


def _of_dump(options: argparse.Namespace, reading: "Reading") -> "tuple[str, str, Iterator[Difference]]":
    from app.tools.audit.client.access import parse_member
    from app.tools.audit.compare.compare import compare, lasting
    from app.tools.audit.compare.input import CannotCompare, sides_of_night
    from app.tools.audit.compare.services import scope_of
    from app.tools.audit.format.layout import NoDump, read_night
    from app.tools.audit.format.manifest import ROUNDS

    if options.b is None:
        raise CannotCompare(phrase("two members are needed, as the dump names them"))
    if options.link:
        raise CannotCompare(phrase("--link asks running members: leave out --dumps, or use rollcall check --linked"))
    a, b = parse_member(options.a), parse_member(options.b)
    if a == b:
        raise CannotCompare(phrase("%(member)s is only one member; two are needed", member=a))
    try:
        night = read_night(options.dumps, options.date)
    except NoDump as error:
        raise CannotCompare(*error.args) from None
    except (OSError, ValueError, ImportError) as error:
        raise CannotCompare(phrase("%(path)s cannot be read: %(error)s", path=options.dumps, error=error)) from None
    for note in night.notes:
        _say(note)
    pairs = sides_of_night(options.dumps, night, a, b, reading)
    if len(pairs) < len(night.rounds):
        _say(phrase("both members were dumped in only one round, so it is unknown which differences last"))
    scope = scope_of(*(side.facts for side in pairs[-1]), is_filtered=reading.is_filtered)
    reading.left_out.update(dict.fromkeys(scope.left_out))
    rounds = [compare(*pair, is_filtered=reading.is_filtered) for pair in pairs[-ROUNDS:]]
    return a, b, lasting(*rounds) if len(rounds) == ROUNDS else rounds[0]


def _lasting(differences: "Iterator[Difference]") -> "Iterator[Difference]":
    """Yield the differences that both rounds have alike.

    Raises:
        CannotCompare: there was only one round, which does not show the lasting ones.
    """
    from app.tools.audit.compare.input import CannotCompare

    for one in differences:
        if one.lasting is None:
            raise CannotCompare(phrase("there was only one round, so it is unknown which differences last"))
        if one.lasting:
            yield one


def _show(options: argparse.Namespace, tally: "Tally", differences: "Iterator[Difference]", a: str, b: str) -> None:
    from app.tools.audit.compare.table import json_line, table

    counted = tally.count(differences)
    lines = (json_line(one, a, b) for one in counted) if options.json else table(counted, a, b)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    write_note(f"rollcall compare: {shown(text)}")
