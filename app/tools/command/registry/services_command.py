"""``rollcall services``: the services of a namespace, with the number of their healthy instances."""

import argparse
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, OutputFormat, is_data, print_list
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import add_all_namespaces, count_argument, finish, namespaces_of, say
from app.tools.command.asking.shown_values import short_service, text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

ROWS_MAX = 1_000
_NAMESPACE = (Column("namespace", least=16),)
_COLUMNS = (
    Column("service"),
    Column("clusters", drop=3),
    Column("instances", drop=2),
    Column("healthy"),
    Column("state", drop=1),
)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "services",
        help="list services and their health",
        description="List the services of a namespace: clusters, instances, healthy ones. A service is `protected` "
        "while its protect threshold shows clients all instances as healthy.",
    )
    parser.add_argument("name", metavar="TEXT", nargs="?", default="", help="only names that contain it; * is any text")
    parser.add_argument("--group", metavar="TEXT", default="", help="only groups whose names contain it")
    parser.add_argument("--unhealthy", action="store_true", help="only those with an instance that is not healthy")
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"rows of the table ({ROWS_MAX})"
    )
    add_all_namespaces(parser)
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    rows = [
        {**one, "namespaceId": namespace} if options.all_namespaces else one
        for namespace in namespaces_of(options, client)
        for one in client.services(options.name, options.group, namespace)
        if not options.unhealthy or _is_ill(one)
    ]
    if not rows and not is_data(options):
        return _none(options, client)
    print_list(
        options,
        lambda: rows,
        lambda: (f"{one['namespaceId']}/{_name(one)}" if options.all_namespaces else _name(one) for one in rows),
        (*_NAMESPACE, *_COLUMNS) if options.all_namespaces else _COLUMNS,
        (_cells(one, with_namespace=options.all_namespaces) for one in rows[: options.limit]),
    )
    if len(rows) > options.limit and options.output in (OutputFormat.TABLE, OutputFormat.WIDE):
        say(
            options,
            gettext(
                "%(limit)s of %(count)s services; --limit %(count)s shows all, a TEXT fewer",
                limit=options.limit,
                count=len(rows),
            ),
        )
    return ExitCode.DONE


def _none(options: argparse.Namespace, client: RegistryClient) -> int:
    """Say that no service was found."""
    where = gettext("any namespace")
    if not options.all_namespaces:
        client.check_namespace()
        where = gettext("namespace %(name)s", name=client.namespace)
    wanted = options.name or options.group
    if wanted and not options.unhealthy:
        raise CommandError(
            ExitCode.NOT_FOUND,
            gettext(
                "no service in %(where)s matches %(wanted)s; `rollcall services` lists all", where=where, wanted=wanted
            ),
        )
    if options.unhealthy:
        say(options, gettext("no unhealthy services in %(where)s", where=where))
    else:
        say(options, gettext("no services in %(where)s", where=where))
    return ExitCode.DONE


def _name(row: Any) -> str:
    return short_service(text_of(row, "groupName", ""), text_of(row, "name"))


def _cells(row: Any, *, with_namespace: bool) -> tuple[str | Cell, ...]:
    cells = (
        Cell(_name(row), Tone.NAME),
        text_of(row, "clusterCount"),
        text_of(row, "ipCount"),
        text_of(row, "healthyInstanceCount"),
        _state(row),
    )
    return (text_of(row, "namespaceId"), *cells) if with_namespace else cells


def _is_ill(row: Any) -> bool:
    return bool(row.get("ipCount") != row.get("healthyInstanceCount"))


def _state(row: Any) -> Cell:
    if not row.get("ipCount"):
        return Cell(gettext("empty"), Tone.FAINT)
    if not _is_ill(row):
        return Cell(gettext("healthy"), Tone.GOOD)
    if row.get("triggerFlag") == "true":
        return Cell(gettext("protected"), Tone.BAD)
    return Cell(gettext("unhealthy instances"), Tone.ODD) if row.get("healthyInstanceCount") else Cell("DOWN", Tone.BAD)
