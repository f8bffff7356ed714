"""``rollcall migrate``: the move of clients from a Nacos to this cluster, over a link to it, step by step."""

import argparse
import getpass
import sys
from collections.abc import Callable

from app.languages.command_texts import gettext
from app.languages.phrases import reason_of
from app.tools.audit.client.access import (
    CONTEXT_PATH,
    Access,
    AccessError,
    add_call_options,
    add_server_option,
    duration_s,
    first_line,
    parse_url,
    positive_duration_s,
)
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, add_output_options
from app.tools.command.asking.run_command import count_argument, fail
from app.tools.command.suggesting_parser import add_commands

TIMEOUT_S, GAP_S = 10.0, 5.0
ROWS_MAX = 50
NAME, CLUSTER_ID = "old", "rollcall"
Run = Callable[[argparse.Namespace], int]


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "migrate",
        help="move clients from a Nacos to this cluster, step by step",
        description="Move clients from a Nacos 1.x, 2.x or 3.x to this cluster: link both (1), wait until they agree "
        "(2), move the clients (3), and switch the Nacos off when it has no clients left (4, 5). You can go back at "
        "any step.",
    )
    commands = add_commands(parser, "STEP")
    _add_status(commands)
    _add_plan(commands)


def _add_status(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "status",
        help="show the step, and the clients that are still at the Nacos",
        description="Show the step of the move, the services and clients that are still at the Nacos, and whether it "
        "is safe to switch it off. Exit code 0: it is safe; 1: it is not yet.",
    )
    _add_nacos_options(parser)
    parser.add_argument("--link", metavar="NAME", help="the link to the Nacos (the one with its servers)")
    parser.add_argument(
        "--namespaces",
        metavar="ID,...",
        action="append",
        default=[],
        help="further namespaces that the Nacos may not list",
    )
    parser.add_argument("--all", action="store_true", help="also list the services that are moved")
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"rows of each table ({ROWS_MAX})"
    )
    parser.add_argument(
        "--gap",
        metavar="TIME",
        type=duration_s,
        default=GAP_S,
        help="if the sides differ, ask again after this time; 0: do not (5s)",
    )
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show a bar (on a terminal it is shown)"
    )
    add_output_options(parser, LISTS)
    add_server_option(parser)
    add_call_options(parser, TIMEOUT_S)
    parser.set_defaults(run=lambda options: _run(options, _status), command=parser.prog)


def _add_plan(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plan",
        help="print the settings of the link",
        description="Ask the Nacos for its release and its members, and print the lines for application.properties of "
        "every member of this cluster.",
    )
    _add_nacos_options(parser)
    parser.add_argument("--link", metavar="NAME", default=NAME, help=f"the name of the link ({NAME})")
    parser.add_argument(
        "--cluster-id", metavar="ID", default=CLUSTER_ID, help=f"the name of this cluster ({CLUSTER_ID})"
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=positive_duration_s,
        default=TIMEOUT_S,
        help=f"time-out of a connection, and of each part of an answer ({TIMEOUT_S:g}s)",
    )
    parser.set_defaults(run=lambda options: _run(options, _plan), command=parser.prog, retries=0)


def _add_nacos_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nacos",
        metavar="URL,...",
        required=True,
        help="servers of the Nacos, such as 10.2.0.1:8848; the first that answers is asked",
    )
    parser.add_argument("--nacos-user", metavar="NAME", help="log in at the Nacos")
    parser.add_argument("--nacos-password-file", metavar="FILE", help="the password of --nacos-user")
    parser.add_argument(
        "--nacos-ca", metavar="FILE", help="call the Nacos over HTTPS, and verify it with these certificates (PEM)"
    )


def _status(options: argparse.Namespace) -> int:
    from app.tools.command.migrate.migrate_status import show_status

    return show_status(options, *nacos_of(options))


def _plan(options: argparse.Namespace) -> int:
    from app.tools.command.migrate.link_plan import print_plan

    return print_plan(options, *nacos_of(options))


def _run(options: argparse.Namespace, run: Run) -> int:
    """Run a command, and return the exit code; a failure is one line on standard error."""
    try:
        return run(options)
    except CommandError as error:
        return fail(options, error.code, str(error))
    except AccessError as error:
        return fail(options, ExitCode.WRONG_OPTIONS, reason_of(error))


def nacos_of(options: argparse.Namespace) -> tuple[tuple[str, ...], Access]:
    """Return the servers of the Nacos, and how to call them.

    The configuration of this cluster is not read: its credentials do not belong to the Nacos.

    Raises:
        AccessError: an address cannot be used, or there is no password.
    """
    parsed = [parse_url(one.strip()) for one in options.nacos.split(",") if one.strip()]
    if not parsed:
        raise AccessError(gettext("--nacos names no server"))
    if len({(scheme, path) for scheme, _, path in parsed}) > 1:
        raise AccessError(gettext("--nacos: all servers need the same scheme and path"))
    scheme, _, path = parsed[0]
    return tuple(dict.fromkeys(address for _, address, _ in parsed)), Access(
        scheme="https" if options.nacos_ca else scheme,
        ca=options.nacos_ca or "",
        context_path=CONTEXT_PATH if path is None else path,
        timeout_s=options.timeout,
        retries=options.retries,
        user=options.nacos_user or "",
        password=_password(options),
    )


def _password(options: argparse.Namespace) -> str:
    if options.nacos_password_file:
        if not options.nacos_user:
            raise AccessError(gettext("--nacos-password-file needs --nacos-user"))
        return first_line("password", options.nacos_password_file)
    if not options.nacos_user:
        return ""
    if sys.stdin is not None and sys.stdin.isatty():
        return getpass.getpass("Password: ")
    raise AccessError(gettext("--nacos-user needs --nacos-password-file"))
