"""``rollcall find``: the instances and services that have an address, a metadata value or a name, in all namespaces."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from app.languages.command_texts import gettext
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, OutputFormat, is_data, print_list
from app.tools.command.asking.registry_client import DEFAULT_PREFIX, RegistryClient, Row
from app.tools.command.asking.run_command import add_all_namespaces, count_argument, finish, say
from app.tools.command.asking.shown_values import address_of, flag_cell, metadata_text, text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

SEARCH = "/v1/ns/instance/search"
PAGE, ROWS_MAX = 1_000, 1_000
STATES = ("unhealthy", "healthy", "disabled")
_COLUMNS = (
    Column("namespace", drop=1, least=16),
    Column("service"),
    Column("instance"),
    Column("cluster", drop=4),
    Column("health"),
    Column("enabled", drop=2),
    Column("metadata", drop=3, least=16),
)


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "find",
        help="find instances by address or metadata, in all namespaces",
        description="Find instances by ip, by ip:port, by the beginning of an ip (10.0.3.), by port, by KEY=VALUE of "
        "their metadata, or by a text in a key or value. Services whose names contain the text are listed as well. All "
        "namespaces are searched, unless --namespace names one. Exit code 5: nothing was found.",
    )
    parser.add_argument(
        "text", metavar="IP|ADDRESS|METADATA", nargs="?", default="", help="such as 10.0.0.7:8080, zone=a"
    )
    parser.add_argument("--state", choices=STATES, help="only such instances; alone: all of them")
    add_all_namespaces(parser)
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"instances at most ({ROWS_MAX})"
    )
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if not options.text and not options.state:
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("nothing to find: give an address, a text or --state"))
    if options.namespace and options.all_namespaces:
        raise CommandError(
            ExitCode.WRONG_OPTIONS, gettext("--namespace and --all-namespaces exclude each other: give one")
        )
    found = SearchedPages(options, client)
    if not found.instances and not found.services:
        raise CommandError(
            ExitCode.NOT_FOUND,
            gettext("nothing in %(where)s fits %(state)s", where=found.where, state=options.text or options.state),
        )
    if not found.instances and options.output in (OutputFormat.TABLE, OutputFormat.WIDE):
        _tell(options, found)
        return ExitCode.DONE
    print_list(
        options,
        lambda: {
            "count": found.count,
            "complete": found.complete,
            "instances": found.instances,
            "serviceCount": found.service_count,
            "services": found.services,
        },
        lambda: dict.fromkeys(map(address_of, found.instances)),
        _COLUMNS,
        map(_cells, found.instances),
    )
    if not is_data(options) and options.output != OutputFormat.NAME:
        _tell(options, found)
    return ExitCode.DONE


class SearchedPages:
    """The answer to a search, whose instances come in pages: at most ``--limit`` of them are read."""

    def __init__(self, options: argparse.Namespace, client: RegistryClient) -> None:
        self._client, self._limit = client, options.limit
        # A configured namespace does not narrow a search, which is for what nobody knows the place of.
        self._wanted = {
            name: value
            for name, value in (("text", options.text), ("state", options.state), ("namespaceId", options.namespace))
            if value
        }
        self.where = f"namespace {options.namespace}" if options.namespace else "any namespace"
        first = self._page(1)
        self.count, self.complete = first["count"], first.get("complete") is not False
        self.services = client.rows(SEARCH, first.get("services") or [])
        count = first.get("serviceCount")
        self.service_count = count if isinstance(count, int) else len(self.services)
        self.instances = list(self._instances(first))

    def _page(self, number: int) -> dict[str, Any]:
        answer = self._client.get(SEARCH, {**self._wanted, "pageNo": number, "pageSize": min(self._limit, PAGE)})
        if not isinstance(answer, dict) or not isinstance(answer.get("count"), int):
            raise self._client.unusable(SEARCH)
        return answer

    def _instances(self, first: dict[str, Any]) -> Iterator[Row]:
        """Yield the instances of all pages, up to the limit. A page may be shorter than requested."""
        rows, number, left = self._client.rows(SEARCH, first.get("instances")), 1, self._limit
        while rows and left > 0:
            yield from rows[:left]
            left -= len(rows)
            if self._limit - left >= self.count:
                return
            number += 1
            rows = self._client.rows(SEARCH, self._page(number).get("instances")) if left > 0 else []


def _cells(one: Row) -> tuple[str | Cell, ...]:
    return (
        text_of(one, "namespaceId"),
        Cell(text_of(one, "serviceName").removeprefix(DEFAULT_PREFIX), Tone.NAME),
        address_of(one),
        text_of(one, "clusterName"),
        flag_cell(one.get("healthy"), gettext("healthy"), gettext("UNHEALTHY")),
        flag_cell(one.get("enabled"), gettext("yes"), gettext("no")),
        Cell(metadata_text(one.get("metadata")), Tone.FAINT),
    )


def _tell(options: argparse.Namespace, found: SearchedPages) -> None:
    """Print the number of matches that are not in the table."""
    sys.stdout.flush()
    if found.count > len(found.instances):
        count = found.count if found.complete else f"over {found.count}"
        say(
            options,
            gettext(
                "%(count)s of %(total)s instances; --limit shows more, a longer text finds fewer",
                count=len(found.instances),
                total=count,
            ),
        )
    if found.services:
        names = [text_of(one, "serviceName").removeprefix(DEFAULT_PREFIX) for one in found.services]
        more = f" and {found.service_count - len(names)} more" if found.service_count > len(names) else ""
        say(options, gettext("services with this in their name: %(names)s%(more)s", names=", ".join(names), more=more))
