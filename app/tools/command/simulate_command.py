"""``rollcall simulate``: a cluster of members in virtual time, with faults, shown event by event.

Exit codes: 0 all invariants held, 1 one was broken, 2 wrong options, 130 stopped by Ctrl-C.
"""

import argparse
import os
import sys

from app.tools.printable import write_line

WRONG_OPTIONS, READER_GONE = 2, 141
MEANING_AT = 25
"""The column of the meanings in the list of scenarios."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "simulate",
        help="run a cluster in virtual time, with faults, and show who did what and why",
        description="Run a whole cluster inside this process, in virtual time: members with the real protocol, "
        "registry and records, a network and disks that fail, and clients. What happens follows from the seed alone, "
        "so each run can be repeated. Every event is printed as one line: when, what, who, and the rule of "
        "docs/replication.md. Then the faults end, and all members must agree. Exit code 0: all invariants held; "
        "1: one was broken; 2: wrong options. docs/simulation.md tells how to read a transcript. No file is "
        "written, and no port opened.",
        epilog="Examples: rollcall simulate --seed 7 --faults partition,kill; "
        "rollcall simulate --without versions --seed 0 --key svc1; rollcall simulate --runs 100 --quiet",
    )
    run = parser.add_argument_group("what is run")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="the seed of all random choices (0)")
    run.add_argument(
        "--runs",
        type=int,
        default=1,
        metavar="K",
        help="run seeds N to N+K-1, up to the first that breaks an invariant",
    )
    run.add_argument("--scenario", metavar="NAME", help="the scenario of the run; --list names all (course)")
    run.add_argument("--without", metavar="RULE", help="switch a rule off, in the scenario that needs it")
    run.add_argument("--list", action="store_true", help="print scenarios, rules, faults and invariants, and end")
    course = parser.add_argument_group("the scenario `course`")
    course.add_argument("--members", type=int, metavar="M", help="2 to 9 members, named A, B, C and so on (3)")
    course.add_argument("--seconds", type=int, metavar="S", help="virtual seconds in which faults happen (60)")
    course.add_argument(
        "--faults", metavar="NAMES", help="kinds that may happen, separated by commas; all, or none (all)"
    )
    course.add_argument("--services", type=int, metavar="S", help="services (4)")
    course.add_argument("--instances", type=int, metavar="I", help="clients that keep an instance registered (12)")
    course.add_argument("--records", type=int, metavar="R", help="persistent instances (2)")
    course.add_argument("--writes", type=int, metavar="W", help="changes after the first registrations (24)")
    course.description = "The scenario `large` takes members, services and records, too."
    shown = parser.add_argument_group("what is printed")
    shown.add_argument("--from", type=int, dest="from_ms", metavar="MS", help="events from this virtual time on")
    shown.add_argument("--to", type=int, dest="to_ms", metavar="MS", help="events up to this virtual time")
    shown.add_argument("--key", metavar="TEXT", help="events that touch a key with this in its name, such as svc1")
    shown.add_argument("--member", metavar="NAME", help="events at this member or client: A, client-3, operator-1")
    shown.add_argument("--all", action="store_true", help="beats and rounds in which nothing differs, too")
    shown.add_argument("--json", action="store_true", help="a line of JSON for each event and for the verdict")
    shown.add_argument("--quiet", action="store_true", help="the verdict only")
    parser.set_defaults(run=run_command)


def run_command(options: argparse.Namespace) -> int:
    """Run, print, and return the exit code."""
    from app.tools.simulation.tool.sim_request import OptionError, read_request
    from app.tools.simulation.tool.simulate import catalogue, simulate

    try:
        if options.list:
            for line in catalogue().splitlines():
                write_line(line, " " * MEANING_AT)
            return 0
        code = simulate(read_request(options))
        sys.stdout.flush()
        return code
    except OptionError as error:
        print(f"rollcall simulate: {error}", file=sys.stderr)
        return WRONG_OPTIONS
    except BrokenPipeError:  # the reader, such as `head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
