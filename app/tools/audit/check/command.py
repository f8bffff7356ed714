"""The command of the nightly check. Exit codes: 0 the members agree, 1 they do not, 2 there is no verdict."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.languages.command_texts import command_texts, gettext, ngettext
from app.rows.summary import Summary
from app.tools.audit.check.signals import EndSignals
from app.tools.audit.client.arguments import (
    add_alert_options,
    days_argument,
    night_argument,
    run_argument,
)
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.report.night_options import classes_argument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.tools.audit.check.night_check import NightCheck
    from app.tools.audit.check.results import Results

SHUFFLE_PARTITIONS = 8
"""The number of partitions before the rows are counted."""
CAUSE_CHARS_MAX = 500
ENDED = "ended by a signal"
ENDED_CODES = {-9, -15, 128 + 9, 128 + 15}
"""Exit codes of a process that SIGKILL or SIGTERM ended, also as a shell gives them."""
_DESCRIPTION = (
    "Compare the dumps that `rollcall dump` took of all members of a cluster, and report whether they agree. "
    "Exit code 0: agreed; 1: divergent; 2: could not judge."
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command ``check``."""
    made = commands.add_parser("check", help="compare the dumps of all members, on Spark", description=_DESCRIPTION)
    _add_options(made)
    made.set_defaults(run=_run)


class _Prepare(argparse.Action):
    """The option that makes the class-data archive, and ends the command: it needs no others."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> None:
        from app.tools.audit.check.archive import NoArchive, make_archive

        try:
            path = make_archive(os.environ)
        except NoArchive as error:
            parser.exit(2, gettext("no archive was made: %(error)s", error=error) + "\n")
        size = path.stat().st_size // 1_000_000
        print(gettext("%(path)s: %(size)s MB; later checks start with it", path=path, size=size))
        parser.exit()


def _add_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--prepare",
        action=_Prepare,
        nargs=0,
        help="make an archive of Spark's classes once, with which later checks of this user start in less time, and "
        "exit; again after an update of Java or PySpark",
    )
    made.add_argument("--dumps", required=True, metavar="URI", help="the folder or URI of the dumps")
    made.add_argument("--out", required=True, metavar="URI", help="the folder or URI for findings, reports and history")
    made.add_argument("--night", type=night_argument, metavar="DATE", help="the dump_date to check (the latest)")
    made.add_argument(
        "--run",
        dest="dump_run",
        type=run_argument,
        metavar="ID",
        help="judge only this run of `rollcall dump`, not the latest of the night",
    )
    made.add_argument(
        "--not-judged",
        metavar="REASON",
        help="compare nothing: report to page, alert and metrics that the night has no verdict, such as for a dump "
        "that failed",
    )
    made.add_argument(
        "--full",
        action="store_true",
        help="compare all rows, also where the digests of the dump say that members agree; each Sunday's night always "
        "does",
    )
    made.add_argument("--keep", type=days_argument, metavar="DAYS", help="remove results of nights older than this")
    made.add_argument(
        "--compact-after",
        type=days_argument,
        metavar="DAYS",
        help="merge the files of a month once all its nights are older than this",
    )
    made.add_argument(
        "--ignore",
        type=classes_argument,
        default=frozenset(),
        metavar="CLASS,...",
        help="classes to ignore: " + ", ".join(FindingClass),
    )
    made.add_argument(
        "--suppressions", metavar="FILE", help="TOML file of known findings that do not change the verdict until a date"
    )
    made.add_argument(
        "--linked",
        action="append",
        default=[],
        metavar="URI",
        help="the dumps of a linked cluster, of the same night: judge what links carry; may be given several times",
    )
    _add_output_options(made)
    _add_spark_options(made)


def _add_output_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show a bar of each stage (on a terminal it is shown)"
    )
    made.add_argument("--json", action="store_true", help="print the summary as JSON instead of the verdict line")
    add_alert_options(made)
    made.add_argument("--textfile", metavar="PATH", help="write metrics for Prometheus's textfile collector here")


def _add_spark_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--master", metavar="URL", help="the Spark master (local[*]; under spark-submit, its own)")
    made.add_argument("--remote", help=argparse.SUPPRESS)  # of Spark Connect: refused, and told why
    made.add_argument("--driver-memory", metavar="SIZE", help="as in Spark: 4g (half of the machine's, at most 8g)")


def main(arguments: Sequence[str] | None = None, spark: "SparkSession | None" = None) -> int:
    """Check one night, write its results, print its verdict, and return the exit code.

    ``spark``: a session to use, and to leave open; without one it makes its own.
    """
    parser = argparse.ArgumentParser(prog="distro_check.py", description=_DESCRIPTION)
    _add_options(parser)
    return _run(parser.parse_args(arguments), spark)


class _NoVerdict(Exception):
    """The night has no verdict; the text says why. ``error``: the failure of Spark, if it was one."""

    def __init__(self, reason: str, error: "dict[str, Any] | None" = None) -> None:
        super().__init__(reason)
        self.error = error


def _run(options: argparse.Namespace, spark: "SparkSession | None" = None) -> int:
    with EndSignals(active=spark is None) as signals:
        try:
            return _check(options, spark, signals)
        except BaseException as error:  # whatever it is: page, alert and metrics must not keep saying "agreed"
            signals.end()
            if signals.exit_code is not None:
                return signals.exit_code
            from app.tools.audit.check.conclude import conclude_without_verdict

            details = error.error if isinstance(error, _NoVerdict) else None
            return conclude_without_verdict(options, _reason(error, signals), details, brief=signals.received)


def _reason(error: BaseException, signals: EndSignals) -> str:
    """Return the reason why there is no verdict."""
    if signals.received or isinstance(error, KeyboardInterrupt):
        return ENDED
    if java := _ended_java():
        return java
    if isinstance(error, _NoVerdict):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return f"this Python has no package {error.name}: pip install 'rollcall-registry[audit]'"
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {str(error)[:CAUSE_CHARS_MAX]} ({Path(where.filename).name}:{where.lineno})"
    return f"the check failed with {text}"


def _ended_java() -> str:
    """Return in words that the Java of this process has ended; empty if it runs, or none was started.

    The errors that follow tell nothing of the cause: a refused connection, or a missing key.
    """
    context = sys.modules.get("pyspark.core.context")
    gateway = context.SparkContext._gateway if context is not None else None  # noqa: SLF001  # there is no public name
    process = getattr(gateway, "proc", None)
    code = process.poll() if process is not None else None
    if code is None:
        return ""
    if code in ENDED_CODES:
        return f"{ENDED}, which reached Spark's Java (exit code {code})"
    return f"Spark failed: its Java ended with exit code {code} before the check did"


def _check(options: argparse.Namespace, spark: "SparkSession | None", signals: EndSignals) -> int:
    from app.tools.audit.check.session import NO_CONNECT, NO_PYSPARK, is_connect

    if options.not_judged:
        raise _NoVerdict(options.not_judged)
    if find_spec("pyspark") is None:
        raise _NoVerdict(NO_PYSPARK)
    from app.tools.audit.check.night_reports import NotWritable
    from app.tools.audit.check.results import Results

    results = Results(options.out)
    try:
        results.open()
    except NotWritable as error:
        raise _NoVerdict(str(error)) from None
    if spark is not None and is_connect(spark):
        raise _NoVerdict(NO_CONNECT)
    try:
        if spark is not None:
            return _night(options, _night_check(options), results, spark, signals)
        return _submit(options, results, signals)
    finally:
        if not signals.received:
            results.close()


def _submit(options: argparse.Namespace, results: "Results", signals: EndSignals) -> int:
    """Check the night without Spark if its digests agree, else in a new session, or in the submitted one."""
    from app.tools.audit.check.agreed import judge_agreed
    from app.tools.audit.check.session import NoSpark, open_session

    check = _night_check(options)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        summary, check = judge_agreed(check, results)
        if summary is not None:
            return _reported(options, results, summary, signals)
    try:
        spark = open_session(
            options.master,
            "rollcall distro check",
            shuffle_partitions=SHUFFLE_PARTITIONS,
            driver_memory=options.driver_memory,
            rows=_rows(options),
            remote=options.remote,
            shows_progress=sys.stderr.isatty() if options.progress is None else options.progress,
        )
    except NoSpark as error:
        raise _NoVerdict(str(error)) from None
    try:
        return _night(options, check, results, spark, signals)
    finally:
        # After a signal, time is short, and Java may be gone: it ends with this process.
        if not signals.received:
            spark.stop()


def _rows(options: argparse.Namespace) -> int | None:
    """Return the rows of the night by its manifests; None if they cannot be read from here, which Spark may do.

    Raises:
        _NoVerdict: there is no dump to judge, for which Spark need not start.
    """
    from app.tools.audit.format.layout import NoDump, read_night

    try:
        night = read_night(options.dumps, options.night, options.dump_run)
    except NoDump as error:
        raise _NoVerdict(str(error)) from None
    except (OSError, ValueError):
        return None
    return sum(part.rows for one in night.rounds for member in one.manifest.members for part in member.parts)


def _night(
    options: argparse.Namespace, check: "NightCheck", results: "Results", spark: "SparkSession", signals: EndSignals
) -> int:
    """Check the night and report its verdict, then compact old months: the verdict is out whether that succeeds."""
    summary = _compare(check, results, spark)
    code = _reported(options, results, summary, signals)
    if options.compact_after:
        _compact(options, results, spark, summary.night)
    return code


def _reported(options: argparse.Namespace, results: "Results", summary: Summary, signals: EndSignals) -> int:
    """Publish the summary and report its verdict; return the exit code."""
    from app.tools.audit.check.conclude import judged_with, report_verdict, say

    summary = replace(summary, judged_with=judged_with(options))
    say(gettext("report: %(path)s", path=_publish(options, results, summary)))
    if signals.received:
        raise _NoVerdict(ENDED)
    return report_verdict(options, summary, results, signals.reported)


def _compact(options: argparse.Namespace, results: "Results", spark: "SparkSession", night: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from app.tools.audit.check.compaction import compact, days_before
    from app.tools.audit.check.failures import failure_of
    from app.tools.audit.format.commits import BadCommit

    try:
        for month in compact(spark, results, days_before(night, options.compact_after)):
            print(gettext("merged the results of %(month)s", month=month), file=sys.stderr)
    except (PySparkException, Py4JError, OSError, BadCommit) as error:
        text = gettext("note: old results were not merged: %(error)s", error=failure_of(error).line)
        print(text, file=sys.stderr)


def _night_check(options: argparse.Namespace) -> "NightCheck":
    from app.tools.audit.check.night_check import NightCheck

    return NightCheck(
        options.dumps,
        options.night,
        options.ignore,
        options.suppressions,
        options.dump_run,
        tuple(options.linked),
        options.full,
    )


def _compare(check: "NightCheck", results: "Results", spark: "SparkSession") -> Summary:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from app.tools.audit.check.check import CannotJudge, judge
    from app.tools.audit.check.failures import failure_of
    from app.tools.audit.format.commits import BadCommit

    try:
        return judge(spark, check, results)
    except (CannotJudge, BadCommit) as error:
        raise _NoVerdict(str(error)) from None
    except (PySparkException, Py4JError, OSError) as error:
        failure = failure_of(error)
        raise _NoVerdict(f"Spark failed: {failure.line}", failure.as_field()) from error


def _publish(options: argparse.Namespace, results: "Results", summary: Summary) -> str:
    """Put the night's results in place, remove old ones, and return the path of the report."""
    from app.tools.audit.report.report import render

    try:
        path = results.publish(summary, render(summary, results.summaries(before=summary.night), command_texts()))
    except OSError as error:
        raise _NoVerdict(f"cannot write to {options.out}: {error.strerror or error}") from None
    _remove_old(options, results, summary.night)
    return path


def _remove_old(options: argparse.Namespace, results: "Results", night: str) -> None:
    """Write missing manifests, then remove old nights and the files of interrupted checks.

    A failure here does not unpublish the night.
    """
    from app.tools.audit.check.conclude import say
    from app.tools.audit.format.commits import BadCommit

    try:
        results.write_manifests()
        for removed in results.remove_before(night, options.keep) if options.keep else ():
            say(gettext("removed the results of %(night)s", night=removed))
        if abandoned := results.remove_abandoned():
            say(
                ngettext(
                    "removed %(count)s file of interrupted checks",
                    "removed %(count)s files of interrupted checks",
                    abandoned,
                    count=abandoned,
                )
            )
    except (BadCommit, OSError) as error:
        say(gettext("note: manifests were not written, or old results not removed: %(error)s", error=error))
