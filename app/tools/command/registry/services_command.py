"""``rollcall services``: the services of a namespace, with the number of their healthy instances."""

import argparse
import sys
from typing import Any

from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import count_argument, finish, say
from app.tools.command.asking.shown_values import short_service, text_of
from app.tools.command.asking.terminal_table import Cell, Tone, print_table
from app.tools.command.printable import json_text

ROWS_MAX = 1_000


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "services",
        help="list services and their health",
        description="List the services of a namespace: clusters, instances, healthy ones, and whether a protect "
        "threshold shows all of them as healthy.",
    )
    parser.add_argument("name", metavar="TEXT", nargs="?", default="", help="only names that contain it; * is any text")
    parser.add_argument("--group", metavar="TEXT", default="", help="only groups whose names contain it")
    parser.add_argument("--unhealthy", action="store_true", help="only those with an instance that is not healthy")
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"rows of the table ({ROWS_MAX})"
    )
    finish(parser, _run)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    rows = [one for one in client.services(options.name, options.group) if not options.unhealthy or _is_ill(one)]
    if options.json:
        sys.stdout.write(json_text(rows) + "\n")
        return ExitCode.DONE
    if not rows:
        client.check_namespace()
        wanted = options.name or options.group
        if wanted and not options.unhealthy:
            raise CommandError(
                ExitCode.NOT_FOUND,
                f"no service in namespace {client.namespace} matches {wanted}; `rollcall services` lists all",
            )
        say(options, f"namespace {client.namespace} has no {'unhealthy ' if options.unhealthy else ''}services")
        return ExitCode.DONE
    print_table(
        ("service", "clusters", "instances", "healthy", "state"),
        (
            (
                Cell(short_service(text_of(one, "groupName", ""), text_of(one, "name")), Tone.NAME),
                text_of(one, "clusterCount"),
                text_of(one, "ipCount"),
                text_of(one, "healthyInstanceCount"),
                _state(one),
            )
            for one in rows[: options.limit]
        ),
    )
    if len(rows) > options.limit:
        say(options, f"{options.limit} of {len(rows)} services; --limit {len(rows)} shows all, a TEXT fewer")
    return ExitCode.DONE


def _is_ill(row: Any) -> bool:
    return bool(row.get("ipCount") != row.get("healthyInstanceCount"))


def _state(row: Any) -> Cell:
    if not row.get("ipCount"):
        return Cell("empty", Tone.FAINT)
    if not _is_ill(row):
        return Cell("healthy", Tone.GOOD)
    if row.get("triggerFlag") == "true":
        return Cell("protected: clients see all as healthy", Tone.BAD)
    return Cell("unhealthy instances", Tone.ODD) if row.get("healthyInstanceCount") else Cell("DOWN", Tone.BAD)
