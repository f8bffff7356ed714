"""``rollcall doctor``: checks that a node can run here and fits the others, with advice for each finding.

Exit codes: 0 all is well, 1 there are warnings, 2 something does not work.
"""

import argparse
import sys
import textwrap
from collections.abc import Iterator

from app.config.settings import SettingError, read_settings
from app.tools.audit.client.access import AccessError, access_of, add_access_options
from app.tools.command.asking.output import add_output_options, is_data, print_data
from app.tools.command.doctor_findings import CheckFinding, Severity, failure, warning
from app.tools.command.node_options import add_node_options, overrides_of
from app.tools.printable import printable

WIDTH = 80
_SIGNS = {Severity.OK: "ok  ", Severity.WARNING: "WARN", Severity.FAILURE: "FAIL"}


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "doctor",
        help="check this machine and the members, and say what to do",
        description="Check what a node needs here (settings, user, ports, data folder, descriptors, certificates, UDP) "
        "and how the members fit together (names, clocks, releases, lists, identity). It changes nothing. Exit code 0: "
        "all is well; 1: there are warnings; 2: something does not work.",
    )
    add_node_options(parser)
    parser.add_argument("--tls", action="store_true", help="call the members by https")
    add_output_options(parser)
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check, print, and return the exit code."""
    try:
        findings = list(_findings(options))
    except AccessError as error:
        sys.stderr.write(f"rollcall doctor: {error}\n")
        return 2
    if is_data(options):
        told = [
            {"what": one.what, "severity": one.severity.name, "text": one.text, "advice": one.advice}
            for one in findings
        ]
        print_data(options, told)
    else:
        sys.stdout.writelines(f"{line}\n" for one in findings for line in _lines(one))
    return int(max(one.severity for one in findings))


def _findings(options: argparse.Namespace) -> Iterator[CheckFinding]:
    from app.tools.command.machine_checks import machine_findings
    from app.tools.command.member_checks import member_findings

    access = access_of(options)  # a wrong option is told before all else
    try:
        settings = read_settings(overrides_of(options))
        access = access_of(options, "https" if options.tls else "http", settings.context_path)
    except SettingError:
        # Its text may quote a secret value.
        yield failure("settings", "a node would not start with them", "run `rollcall config`")
        return
    for text in settings.warnings:
        yield warning("settings", text, "see docs/settings.md")
    yield from machine_findings(settings)
    yield from member_findings(settings, access)


def _lines(one: CheckFinding) -> Iterator[str]:
    text = f"{_SIGNS[one.severity]} {one.what}: {one.text}"
    yield from textwrap.wrap(printable(text), WIDTH, subsequent_indent="     ", break_long_words=False)
    if one.advice:
        advice = printable(f"-> {one.advice}")
        yield from textwrap.wrap(
            advice, WIDTH, initial_indent="     ", subsequent_indent="        ", break_long_words=False
        )
