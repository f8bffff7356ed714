"""``rollcall watch``: instances or services that appear, go and change, line by line, until Ctrl-C.

It follows a stream of the server, which says that something changed, and asks then; without a stream, it asks once a
second. A subscription would disturb what it watches: a drain would wait for the watcher, and the watcher would count
among the clients that got a push.
"""

import argparse
import math
import sys
import time
from datetime import datetime
from threading import Event

from app.languages.command_texts import gettext
from app.tools.audit.client.access import positive_duration_s
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.asking.output import OutputFormat
from app.tools.command.asking.registry_client import RegistryClient
from app.tools.command.asking.run_command import count_argument, finish, say
from app.tools.command.asking.server_events import ServerEvents
from app.tools.command.registry.seen_changes import (
    Facts,
    Looked,
    SeenChange,
    SeenHappening,
    changes,
    seen_instance,
    seen_service,
)
from app.tools.printable import json_line, printable, write_line

EVERY_S = 1.0
LOOK_ANYWAY_S = 30.0
"""The time for which a stream without an event is trusted."""
REST = 20
"""The pause between two looks, in durations of a look: a watcher costs a server under 5 % of a core."""
FIRST_ROWS_MAX = 50
_SIGNS = {SeenHappening.THERE: " ", SeenHappening.APPEARED: "+", SeenHappening.WENT: "-", SeenHappening.CHANGED: "~"}


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "watch",
        help="show live which instances or services appear, disappear and change",
        description="Show what appears (+), disappears (-) and changes (~): the instances of services, or without "
        "SERVICE the services of the namespace with their counts. It keeps trying while the server does not answer; "
        "Ctrl-C ends it.",
    )
    parser.add_argument("services", metavar="SERVICE", nargs="*", help="group@@name, or a name in DEFAULT_GROUP")
    parser.add_argument(
        "--every", metavar="TIME", type=positive_duration_s, default=EVERY_S, help="shortest time between requests (1s)"
    )
    parser.add_argument("--for", metavar="TIME", type=positive_duration_s, dest="for_s", help="stop after this time")
    parser.add_argument("--changes", metavar="N", type=count_argument, help="stop after N changes")
    finish(parser, _run, (OutputFormat.JSON,))


def _run(options: argparse.Namespace, client: RegistryClient) -> int:
    return Watcher(options, client).run()


class Watcher:
    """One run of the command, which looks again and again, and prints the differences."""

    def __init__(self, options: argparse.Namespace, client: RegistryClient) -> None:
        self._options, self._client = options, client
        self._pause = Event()
        self._events = ServerEvents(lambda: client.changes(options.services))
        self._begun_s = time.monotonic()
        self._told = 0
        self._is_lost = False

    def run(self) -> int:
        """Watch, and return the exit code."""
        options = self._options
        if not options.services:
            self._client.check_namespace()
        try:
            self._events.start()
            self._go_on()
        except KeyboardInterrupt:
            say(options, gettext("ended, changes: %(told)s", told=self._told))
        finally:
            self._events.stop()
        return ExitCode.DONE

    def _go_on(self) -> None:
        begun_s = time.monotonic()
        seen = self._look(is_first=True)
        self._tell_first(seen)
        while not self._is_over():
            self._await_next(begun_s)
            begun_s = time.monotonic()
            if (now := self._look_again()) is None:
                continue
            for change in changes(seen, now):
                self._tell(change)
                self._told += 1
                if self._is_over():
                    break
            seen = now

    def _is_over(self) -> bool:
        options = self._options
        is_late = options.for_s is not None and time.monotonic() - self._begun_s >= options.for_s
        return is_late or (options.changes is not None and self._told >= options.changes)

    def _await_next(self, begun_s: float) -> None:
        """Wait until the next look is due; the last one began at ``begun_s`` and just ended."""
        looked_s = time.monotonic()
        if self._events.is_open:
            self._events.wait(self._at_most_s(LOOK_ANYWAY_S))
        next_s = looked_s + max(self._options.every, REST * (looked_s - begun_s))
        self._pause.wait(self._at_most_s(next_s - time.monotonic()))

    def _at_most_s(self, pause_s: float) -> float:
        """Return the pause, or the rest of the time to watch if that is shorter; 0 if none is left."""
        left_s = math.inf if self._options.for_s is None else self._options.for_s - (time.monotonic() - self._begun_s)
        return max(min(pause_s, left_s), 0.0)

    def _look_again(self) -> Looked | None:
        """Return a further look; None while the server does not answer, which is printed once."""
        try:
            now = self._look()
        except CommandError as error:
            if error.code is not ExitCode.NO_SERVER:
                raise
            if not self._is_lost:
                say(self._options, gettext("%(error)s -- retrying", error=error))
            self._is_lost = True
            return None
        if self._is_lost:
            say(self._options, gettext("the server answers again"))
        self._is_lost = False
        return now

    def _look(self, *, is_first: bool = False) -> Looked:
        if not self._options.services:
            return dict(map(seen_service, self._client.services()))
        seen: dict[str, Facts] = {}
        for service in self._options.services:
            try:
                seen |= dict(seen_instance(service, one) for one in self._client.instances(service))
            except CommandError as error:
                # A watched service that goes has no instances any more; one that never existed is a wrong name.
                if is_first or error.code is not ExitCode.NOT_FOUND:
                    raise
        return seen

    def _tell_first(self, seen: Looked) -> None:
        options = self._options
        what = gettext("instances") if options.services else gettext("services")
        if self._events.is_open:
            how = gettext("which reports changes")
        else:
            pause = f"{options.every:g}"
            how = gettext("asked every %(seconds)s s", seconds=pause)
        say(
            options,
            gettext(
                "%(count)s %(what)s at %(server)s, %(how)s; Ctrl-C ends",
                count=len(seen),
                what=what,
                server=self._client.server,
                how=how,
            ),
        )
        if len(seen) <= FIRST_ROWS_MAX:
            for name, facts in sorted(seen.items()):
                self._tell(SeenChange(SeenHappening.THERE, name, {}, facts))

    def _tell(self, change: SeenChange) -> None:
        at = datetime.now().astimezone()
        if self._options.output == OutputFormat.JSON:
            told = {
                "at": at.isoformat(timespec="milliseconds"),
                "what": change.happening.value,
                "name": change.name,
                "before": change.before,
                "now": change.now,
            }
            sys.stdout.write(f"{json_line(told)}\n")
        else:
            write_line(printable(f"{at:%H:%M:%S} {_SIGNS[change.happening]} {change.name}  {change.text()}"))
        sys.stdout.flush()
