"""``rollcall events``: the past of instances, services and members, from all members, and what follows."""

import argparse
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from app.languages.command_texts import gettext
from app.tools.audit.client.access import positive_duration_s
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.instance_argument import address_argument
from app.tools.command.asking.output import LISTS, OutputFormat, is_data, print_list
from app.tools.command.asking.registry_client import DEFAULT_PREFIX, EVENT_CHANGES, RegistryClient, Row
from app.tools.command.asking.run_command import add_all_namespaces, count_argument, finish, say
from app.tools.command.asking.server_connection import Parameters
from app.tools.command.asking.server_events import ServerEvents
from app.tools.command.asking.shown_values import text_of
from app.tools.command.asking.terminal_table import Cell, Column, Tone
from app.tools.printable import json_line, printable, write_line

EVENTS = "/v1/ns/operator/events"
KINDS = ("instances", "operators", "cluster", "access")
ROWS_MAX, PAGE = 100, 1_000
FOLLOWED_MAX = 10_000
"""The most events that are read in one look while following."""
OVERLAP_MS = 30_000
"""How far a further look goes back: clocks of members differ, and a member may answer late."""
SEEN_MAX = 100_000
LOOK_ANYWAY_S, PAUSE_S = 10.0, 1.0
_COLUMNS = (
    Column("time"),
    Column("namespace", drop=3, least=16),
    Column("service", drop=1, least=20),
    Column("what", least=40),
    Column("user", drop=4),
    Column("from", drop=5),
    Column("member", drop=2),
)
_OF_SERVICE = tuple(Column(one.head, drop=6, least=20) if one.head == "service" else one for one in _COLUMNS)
"""Every row has the same service."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "events",
        help="show who changed what, and which instances came, went or became unhealthy",
        description="Show what the members remember, the latest last: instances that came, went or became unhealthy, "
        "changes by operators, members that came or went, logins. All members are asked: exit code 1 if one does not "
        "answer. Members remember a bounded number of events; a line says if older ones may be missing.",
    )
    parser.add_argument("--service", metavar="SERVICE", help="only of it: group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument("--instance", metavar="ADDRESS", type=_place, help="only of instances at this ip or ip:port")
    parser.add_argument("--since", metavar="TIME", type=positive_duration_s, help="only so old: 90s, 30m, 1h")
    parser.add_argument("--kind", choices=KINDS, action="append", default=[], help="only of this kind; several times")
    parser.add_argument("--text", metavar="TEXT", help="only events with this text in their line")
    parser.add_argument(
        "--limit", metavar="N", type=count_argument, default=ROWS_MAX, help=f"the latest N events ({ROWS_MAX})"
    )
    parser.add_argument("--follow", action="store_true", help="then print new events until Ctrl-C")
    add_all_namespaces(parser)
    finish(parser, _run, LISTS)


def _place(text: str) -> tuple[str, int | None]:
    """Return ip and port of an instance; None where no port is given. For argparse."""
    if (":" in text and text.count(":") == 1) or text.startswith("["):
        return address_argument(text)
    return text, None


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    if options.namespace and options.all_namespaces:
        raise CommandError(
            ExitCode.WRONG_OPTIONS, gettext("--namespace and --all-namespaces exclude each other: give one")
        )
    if options.follow and options.output not in (OutputFormat.TABLE, OutputFormat.JSON):
        raise CommandError(ExitCode.WRONG_OPTIONS, gettext("--follow prints lines, or with -o json lines of JSON"))
    events, answer = _read(client, _wanted(options), options.limit)
    if options.follow:
        return _Follower(options, client).run(events)
    if not events and not is_data(options):
        say(options, gettext("no such events"))
    else:
        print_list(
            options,
            lambda: {**answer, "events": events},
            lambda: (text_of(one, "id") for one in events),
            _OF_SERVICE if options.service else _COLUMNS,
            map(_cells, reversed(events)),
        )
    if answer.get("more") is True and len(events) >= options.limit:
        say(options, gettext("older events were left out; --limit %(limit)s shows more", limit=options.limit * 10))
    return _tell_gaps(options, answer)


def _wanted(options: argparse.Namespace) -> dict[str, str | int]:
    """Return the parameters that choose the events."""
    ip, port = options.instance or (None, None)
    named = (
        ("namespaceId", options.namespace),
        ("serviceName", options.service),
        ("ip", ip),
        ("port", port),
        ("kinds", ",".join(options.kind)),
        ("text", options.text),
        ("lastMs", round(options.since * 1_000) if options.since else None),
    )
    return {name: value for name, value in named if value}


def _read(client: RegistryClient, wanted: Parameters, limit: int) -> tuple[list[Row], dict[str, Any]]:
    """Return at most ``limit`` events, the latest first, and the last answer with them."""
    events: dict[str, Row] = {}
    before: dict[str, str | int] = {}
    while True:
        answer = client.get(EVENTS, {**wanted, **before, "limit": min(limit - len(events), PAGE)})
        rows = client.rows(EVENTS, answer.get("events") if isinstance(answer, dict) else None)
        new = {text_of(one, "id"): one for one in rows if text_of(one, "id") not in events}
        events |= new
        more = answer.get("next")
        if not new or len(events) >= limit or not isinstance(more, str) or not more:
            return list(events.values())[:limit], answer
        before = {"before": more}


def _at_ms(one: Row) -> int:
    value = one.get("atMs")
    return value if isinstance(value, int) else 0


def _tell_gaps(options: argparse.Namespace, answer: Row) -> int:
    """Say what may be missing, and return the exit code."""
    for one in answer.get("otherKinds") or ():
        say(options, gettext("%(value)s is not a Rollcall member, and cannot be asked", value=one))
    silent = answer.get("notAnswered") or ()
    for one in silent:
        say(options, gettext("%(value)s did not answer: its events are missing", value=one))
    members = answer.get("members")
    for address, facts in sorted(members.items()) if isinstance(members, dict) else ():
        since = facts.get("sinceMs") if isinstance(facts, dict) else None
        times = [one for kind, one in (since or {}).items() if kind in (options.kind or KINDS) and isinstance(one, int)]
        taken = answer.get("takenMs")
        if times and options.since and isinstance(taken, int) and max(times) > taken - options.since * 1_000:
            say(
                options,
                gettext("%(address)s remembers all only since %(times)s", address=address, times=_at(max(times))),
            )
    return ExitCode.NOT_ALL if silent else ExitCode.DONE


def _cells(one: Row) -> tuple[str | Cell, ...]:
    return (
        _at(one.get("atMs")),
        text_of(one, "namespaceId"),
        Cell(text_of(one, "serviceName").removeprefix(DEFAULT_PREFIX), Tone.NAME),
        text_of(one, "says", text_of(one, "what")),
        text_of(one, "user"),
        text_of(one, "from"),
        text_of(one, "node"),
    )


def _at(ms: object) -> str:
    """Return a time of a member in this machine's time zone, with its date if that is another day."""
    if not isinstance(ms, int | float) or not 0 <= ms < 1e14:
        return "-"
    at = datetime.fromtimestamp(ms / 1_000).astimezone()
    return f"{at:%H:%M:%S}" if at.date() == datetime.now().astimezone().date() else f"{at:%m-%d %H:%M:%S}"


class _Follower:
    """Prints events as they come, each once, until Ctrl-C."""

    def __init__(self, options: argparse.Namespace, client: RegistryClient) -> None:
        self._options, self._client = options, client
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._last_ms = 0
        self._pause = threading.Event()
        self._news = ServerEvents(lambda: client.stream(EVENT_CHANGES, {}))

    def run(self, first: Sequence[Row]) -> int:
        """Print the first events and those that follow; return the exit code."""
        try:
            self._print(first)
            self._news.start()
            while True:
                if self._news.is_open:
                    self._news.wait(LOOK_ANYWAY_S)
                self._pause.wait(PAUSE_S)
                self._look()
        except KeyboardInterrupt:
            return ExitCode.DONE
        finally:
            self._news.stop()

    def _look(self) -> None:
        wanted = _wanted(self._options)
        if self._last_ms:
            wanted.pop("lastMs", None)
            wanted["afterMs"] = max(self._last_ms - OVERLAP_MS, 0)
        try:
            rows, _ = _read(self._client, wanted, FOLLOWED_MAX)
        except CommandError as error:
            if error.code is not ExitCode.NO_SERVER:
                raise
            say(self._options, gettext("%(error)s -- retrying", error=error))
            self._pause.wait(LOOK_ANYWAY_S)
            return
        self._print(rows)

    def _print(self, rows: Sequence[Row]) -> None:
        for one in reversed(rows):
            if (name := text_of(one, "id")) in self._seen:
                continue
            self._seen[name] = None
            if len(self._seen) > SEEN_MAX:
                self._seen.popitem(last=False)
            self._last_ms = max(self._last_ms, _at_ms(one))
            if self._options.output == OutputFormat.JSON:
                sys.stdout.write(f"{json_line(one)}\n")
            else:
                write_line(self._line(one))
        sys.stdout.flush()

    def _line(self, one: Row) -> str:
        at, namespace, service, says, user, _, node = (
            cell.text if isinstance(cell, Cell) else cell for cell in _cells(one)
        )
        of = "" if service == "-" else f" {service} ({namespace})"
        return printable(f"{at}{of}: {says}{'' if user == '-' else f', by {user}'}, at {node}")
