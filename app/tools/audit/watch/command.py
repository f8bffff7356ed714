"""``rollcall watch-agreement``: a check every few minutes that the members agree, without Spark and Java."""

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

from app.languages.catalogues import N_
from app.languages.command_texts import gettext
from app.languages.phrases import phrase, reason_of, shown
from app.languages.stored_texts import recognized
from app.rows.summary import Verdict
from app.tools.audit.client.access import (
    AccessError,
    add_access_options,
    add_member_options,
    duration_s,
    members_of,
    names_of,
    positive_duration_s,
)
from app.tools.audit.client.arguments import add_alert_options

if TYPE_CHECKING:
    from app.tools.audit.compare.link_look import LinkEnd
    from app.tools.audit.report.alert_state import Alerts
    from app.tools.audit.watch.rounds import RoundOutcome

PERIOD_S_MIN = 1.0
ROUNDS_OPEN = 3
"""The number of periods for which Alertmanager takes an alert as open if the watch sends no other."""
CAUSE_CHARS_MAX = 500


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "watch-agreement",
        help="check every few minutes whether the members agree",
        description="Compare digests of all data of the members, every few minutes, until SIGTERM. It is quick, but "
        "not a proof, as the nightly check is. Exit code with --once: 0 agreed, 1 divergent, 2 could not judge.",
    )
    add_member_options(parser)
    parser.add_argument(
        "--every", metavar="TIME", type=_period_s, default=300.0, help="from the start of a round to the next (5m)"
    )
    parser.add_argument("--once", action="store_true", help="run one round; its verdict is the exit code")
    parser.add_argument(
        "--gap",
        metavar="TIME",
        type=duration_s,
        default=15.0,
        help="wait before members that differ are compared again (15s)",
    )
    parser.add_argument(
        "--namespaces",
        metavar="ID,...",
        action="append",
        default=[],
        help="further namespaces that members may not list",
    )
    parser.add_argument(
        "--link",
        metavar="NAME[=URL]",
        action="append",
        default=[],
        help="also compare what this link brought with the cluster at its other end, at the servers of the link or "
        "at this member; may be given several times",
    )
    add_alert_options(parser)
    parser.add_argument("--state", metavar="DIR", help="keep the open alerts in this folder, across restarts")
    parser.add_argument("--textfile", metavar="PATH", help="write metrics for Prometheus's textfile collector here")
    add_access_options(parser)
    parser.set_defaults(run=run, timeout=30.0)


def _period_s(text: str) -> float:
    if (seconds := positive_duration_s(text)) < PERIOD_S_MIN:
        reason = gettext("a period should be %(seconds)s s or more", seconds=f"{PERIOD_S_MIN:g}")
        raise argparse.ArgumentTypeError(reason)
    return seconds


def run(options: argparse.Namespace) -> int:
    """Watch, and return the exit code: of the verdict with ``--once``, else 0 after a signal ended the watch."""

    stop = Event()
    try:
        watch = Watch(options, stop)
    except AccessError as error:
        print(f"rollcall watch-agreement: {reason_of(error)}", file=sys.stderr)
        return Verdict.UNJUDGED.exit_code
    with _ended_by_signals(stop):
        if options.once:
            outcome = watch.round()
            return outcome.summary.verdict.exit_code if outcome else Verdict.UNJUDGED.exit_code
        every(options.every, stop, time.monotonic, watch.round)
    print(gettext("ended by a signal"), file=sys.stderr)
    return 0


@contextmanager
def _ended_by_signals(stop: Event) -> Iterator[None]:
    """Have SIGTERM and the keyboard set ``stop``."""
    before = {one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class Watch:
    """The rounds of a watch, each of which reports its outcome; no round raises an exception."""

    def __init__(self, options: argparse.Namespace, stop: Event) -> None:
        """Read the options; raise AccessError if an address or option cannot be used."""
        self._options, self._stop = options, stop
        self._access, self._addresses, self._url_address = members_of(options)
        self._links = self._links_of() if options.link else ()
        self._alerts = self._alerts_of() if options.alert_url else None

    def _links_of(self) -> "tuple[LinkEnd, ...]":
        from app.tools.audit.compare.link_look import parse_link
        from app.tools.audit.watch.link_rounds import LINKS_MAX

        if len(self._options.link) > LINKS_MAX:
            raise AccessError(
                phrase("%(count)s links are over the limit of %(most)s", count=len(self._options.link), most=LINKS_MAX)
            )
        return tuple(parse_link(one, self._access) for one in self._options.link)

    def _alerts_of(self) -> "Alerts":
        from app.tools.audit.report.alert_bodies import AlertFormat, AlertSource
        from app.tools.audit.report.alert_state import AlertFile, Alerts, Recipient

        options = self._options
        lasts_s = ROUNDS_OPEN * options.every
        form = AlertFormat(options.alert_format)
        recipient = Recipient(options.alert_url, form, options.alert_cluster, AlertSource.WATCH, lasts_s)
        try:
            file = AlertFile(options.state, "watch-alert.json") if options.state else None
        except (ImportError, ValueError, OSError) as error:
            raise AccessError(
                phrase("--state %(folder)s cannot be used: %(error)s", folder=options.state, error=error)
            ) from None
        return Alerts(recipient, file, self._stop)

    def round(self) -> "RoundOutcome | None":
        """Run one round and report its outcome; return None if it was stopped before that was known."""
        from app.tools.audit.watch.rounds import Stopped, no_verdict

        try:
            outcome = self._held()
        except Stopped:
            return None
        except Exception as error:  # one round's; the next is held all the same
            text = f"{type(error).__name__}: {str(error)[:CAUSE_CHARS_MAX]}"
            outcome = no_verdict(f"the round failed with {text}")
        self._tell(outcome)
        return outcome

    def _held(self) -> "RoundOutcome":
        from app.tools.audit.client.http_client import CallError
        from app.tools.audit.dump.collect import listed_members
        from app.tools.audit.watch.rounds import RoundPlan, no_verdict, run_round

        if self._url_address:
            try:
                self._addresses = listed_members(self._url_address, self._access)
            except CallError as error:
                # The members of the last time: that one is among them, and is so found to be absent.
                if not self._addresses:
                    return no_verdict(f"no member list of {self._url_address}: {error}")
                reason = reason_of(error)
                _note(gettext("no member list of %(server)s: %(error)s", server=self._url_address, error=reason))
        plan = RoundPlan(self._access, self._options.gap, names_of(self._options.namespaces), self._links)
        return run_round(plan, self._addresses, self._stop)

    def _tell(self, outcome: "RoundOutcome") -> None:
        from app.tools.audit.report.alert_bodies import one_line, told

        summary = outcome.summary
        if self._options.textfile:
            try:
                from app.tools.audit.watch.watch_metrics import write_metrics

                write_metrics(self._options.textfile, outcome)
            except (OSError, ImportError) as error:
                path = self._options.textfile
                _note(gettext("the metrics were not written to %(path)s: %(error)s", path=path, error=error))
        if self._alerts:
            try:
                delivery = self._alerts.tell(summary, told=outcome.told)
                if delivery and not delivery.delivered:
                    _note(gettext("the alert was not delivered: %(reason)s", reason=delivery.reason))
            except OSError as error:
                folder = self._options.state
                text = N_("the list of open alerts cannot be saved in %(folder)s: %(error)s")
                _note(gettext(text, folder=folder, error=error))
        for note in summary.notes:
            _note(gettext("note: %(text)s", text=shown(recognized(note))))
        lines = [shown(recognized(summary.line)), *(f"  {one_line(shown(told(one)))}" for one in summary.examples)]
        try:
            print("\n".join(lines), flush=True)
        except OSError:  # such as a pipe that nobody reads any more: the metrics and alerts continue
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def every(period_s: float, stop: Event, clock: Callable[[], float], run: Callable[[], object]) -> None:
    """Call ``run`` now and at each period after now, until ``stop`` is set.

    The times do not drift: they count from the first. Times that fall into a long call are left out.
    """
    began_s = clock()
    while not stop.is_set():
        run()
        passed_s = clock() - began_s
        next_s = began_s + (math.floor(passed_s / period_s) + 1) * period_s
        stop.wait(max(0.0, next_s - clock()))
