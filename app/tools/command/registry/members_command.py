"""``rollcall members``: the members of a cluster as one of them sees the others, and the contents of each."""

import argparse
from typing import Any

from app.languages.command_texts import gettext
from app.tools.audit.client.access import AccessError, access_of, parse_url, server_of
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import LISTS, print_list
from app.tools.command.asking.registry_client import RegistryClient, Row
from app.tools.command.asking.run_command import finish, say
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone

SERVERS = "/v1/ns/operator/servers"
METRICS = "/v1/ns/operator/metrics"
COUNTS = ("serviceCount", "emptyServiceCount", "instanceCount", "responsibleServiceCount")
_COLUMNS = Column("member"), Column("state"), Column("nacos version", drop=4)
_OF_EACH = (
    Column("says"),
    Column("services", drop=2),
    Column("empty", drop=5),
    Column("instances", drop=1),
    Column("responsible for", drop=3),
)
_TONES = {"UP": Tone.GOOD, "DOWN": Tone.BAD}


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "members",
        help="list the members of the cluster",
        description="List the members as the server sees them. With --each, ask each of them for its counts: exit "
        "code 1 if one does not answer; one that left in order is not asked. `rollcall watch-agreement --once` checks "
        "that they hold the same.",
    )
    parser.add_argument(
        "--each",
        action="store_true",
        help="ask each member for its status and counts; empty: services without instances",
    )
    finish(parser, _run, LISTS)


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    answer = client.get(SERVERS)
    rows = client.rows(SERVERS, answer.get("servers") if isinstance(answer, dict) else None)
    told = [_member(one) for one in rows]
    failures: dict[str, str] = {}
    if options.each:
        for one in told:
            is_gone = one["plannedAbsence"] == "left"
            counts = {} if is_gone else _asked(options, client, one["address"], failures)
            one["status"] = counts.get("status")
            one |= {name: counts.get(name) for name in COUNTS}
    print_list(
        options,
        lambda: told,
        lambda: (one["address"] for one in told),
        (*_COLUMNS, *_OF_EACH) if options.each else _COLUMNS,
        (_cells(one, is_asked=options.each) for one in told),
    )
    for address, text in failures.items():
        say(options, f"{address}: {text}")
    return ExitCode.NOT_ALL if failures else ExitCode.DONE


def _member(row: Row) -> dict[str, Any]:
    extra = row.get("extendInfo")
    version = text_of(extra, "version") if isinstance(extra, dict) else "-"
    absence = text_of(extra, "plannedAbsence", "") if isinstance(extra, dict) else ""
    return {
        "address": text_of(row, "address"),
        "state": text_of(row, "state"),
        "nacosVersion": version,
        "plannedAbsence": absence,
    }


def _asked(options: argparse.Namespace, client: RegistryClient, address: str, failures: dict[str, str]) -> Row:
    """Return one member's report of itself; an empty row, and an entry in ``failures``, if it does not answer."""
    scheme, _, path = parse_url(server_of(options))
    access = access_of(options, scheme, path)
    try:
        # The context path is in the access already.
        asked = RegistryClient(f"{access.scheme}://{address}", client.namespace, access, "cli.toml")
    except AccessError as error:
        failures[address] = str(error)
        return {}
    try:
        answer = asked.get(METRICS)
        return answer if isinstance(answer, dict) else {}
    except CommandError as error:
        failures[address] = str(error)
        return {}
    finally:
        asked.close()


def _cells(one: dict[str, Any], *, is_asked: bool) -> tuple[str | Cell, ...]:
    cells = (
        Cell(one["address"], Tone.NAME),
        Cell(state := one["plannedAbsence"] or one["state"], _TONES.get(state, Tone.ODD)),
        one["nacosVersion"],
    )
    if not is_asked:
        return cells
    absence = one["plannedAbsence"]
    status = "left" if absence == "left" else text_of(one, "status", gettext("no answer"))
    return (
        *cells,
        Cell(status, Tone.ODD if absence else _TONES.get(status, Tone.BAD)),
        *(text_of(one, name) for name in COUNTS),
    )
