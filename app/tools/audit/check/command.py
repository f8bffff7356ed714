"""The command of the nightly check. Exit codes: 0 the members agree, 1 they do not, 2 there is no verdict."""

import argparse
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from app.rows.summary import Summary, Verdict, unjudged
from app.tools.audit.client.arguments import add_alert_options, days_argument, night_argument
from app.tools.audit.format.findings import FindingClass
from app.tools.printable import json_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from app.tools.audit.check.results import Results

SHUFFLE_PARTITIONS = 8
"""The number of partitions before the rows are counted."""
CAUSE_CHARS_MAX = 500
_DESCRIPTION = (
    "Compare the dumps that `rollcall dump` took of all members of a cluster, and report whether they agree. "
    "Exit code 0: agreed; 1: divergent; 2: could not judge."
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command ``check``."""
    made = commands.add_parser("check", help="compare the dumps of all members, on Spark", description=_DESCRIPTION)
    _add_options(made)
    made.set_defaults(run=_run)


def _add_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--dumps", required=True, metavar="URI", help="the folder or URI of the dumps")
    made.add_argument("--out", required=True, metavar="URI", help="the folder or URI for findings, reports and history")
    made.add_argument("--night", type=night_argument, metavar="DATE", help="the dump_date to check (the latest)")
    made.add_argument("--keep", type=days_argument, metavar="DAYS", help="remove results of nights older than this")
    made.add_argument(
        "--compact-after",
        type=days_argument,
        metavar="DAYS",
        help="merge the files of a month once all its nights are older than this",
    )
    made.add_argument(
        "--ignore",
        type=_classes,
        default=frozenset(),
        metavar="CLASS,...",
        help="classes to ignore: " + ", ".join(FindingClass),
    )
    made.add_argument(
        "--suppressions", metavar="FILE", help="TOML file of known findings that do not change the verdict until a date"
    )
    made.add_argument("--json", action="store_true", help="print the summary as JSON instead of the verdict line")
    add_alert_options(made)
    made.add_argument("--textfile", metavar="PATH", help="write metrics for Prometheus's textfile collector here")
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


def _run(options: argparse.Namespace, spark: "SparkSession | None" = None) -> int:
    try:
        return _check(options, spark)
    except ModuleNotFoundError as error:
        reason = f"this Python has no package {error.name}: pip install 'rollcall-registry[audit]'"
        return _finish(options, _without_verdict(options, reason))
    except Exception as error:  # any error: cron's mail, the alert and the metrics must not keep saying "agreed"
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {str(error)[:CAUSE_CHARS_MAX]} ({Path(where.filename).name}:{where.lineno})"
        return _finish(options, _without_verdict(options, f"the check failed with {text}"))


def _check(options: argparse.Namespace, spark: "SparkSession | None") -> int:
    from app.tools.audit.check.session import NO_CONNECT, NO_PYSPARK, is_connect

    if find_spec("pyspark") is None:
        return _finish(options, _without_verdict(options, NO_PYSPARK))
    from app.tools.audit.check.results import NotWritable, Results

    results = Results(options.out)
    try:
        results.open()
    except NotWritable as error:
        return _finish(options, _without_verdict(options, str(error)))
    if spark is not None and is_connect(spark):
        return _finish(options, _without_verdict(options, NO_CONNECT))
    try:
        return _night(options, results, spark) if spark else _submit(options, results)
    finally:
        results.close()


def _submit(options: argparse.Namespace, results: "Results") -> int:
    """Check the night in a session of our own, or in the submitted one."""
    from app.tools.audit.check.session import NoSpark, open_session

    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        spark = open_session(
            options.master,
            "rollcall distro check",
            shuffle_partitions=SHUFFLE_PARTITIONS,
            driver_memory=options.driver_memory,
            rows=_rows(options),
            remote=options.remote,
        )
    except NoSpark as error:
        return _conclude(options, results, _without_verdict(options, str(error)))
    try:
        return _night(options, results, spark)
    finally:
        spark.stop()


def _rows(options: argparse.Namespace) -> int | None:
    """Return the rows of the night by its manifests; None if they cannot be read, which the check will report."""
    from app.tools.audit.format.layout import NoDump, read_night

    try:
        night = read_night(options.dumps, options.night)
    except (NoDump, OSError, ValueError):
        return None
    return sum(part.rows for one in night.rounds for member in one.manifest.members for part in member.parts)


def _night(options: argparse.Namespace, results: "Results", spark: "SparkSession") -> int:
    """Check and conclude the night, then compact old months: the verdict is out whether or not that succeeds."""
    summary = _compare(options, results, spark)
    code = _conclude(options, results, summary)
    if options.compact_after and summary.night:
        _compact(options, results, spark, summary.night)
    return code


def _conclude(options: argparse.Namespace, results: "Results", summary: Summary) -> int:
    """Publish the night, report the verdict and return its exit code."""
    from app.tools.audit.check.results import NotWritable

    try:
        report = _publish(options, results, summary)
    except NotWritable as error:
        return _finish(options, _without_verdict(options, str(error)))
    if report:
        print(f"report: {report}", file=sys.stderr)
    return _finish(options, summary, results)


def _compact(options: argparse.Namespace, results: "Results", spark: "SparkSession", night: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from app.tools.audit.check.compaction import compact, days_before
    from app.tools.audit.check.failures import failure_of
    from app.tools.audit.format.commits import BadCommit

    try:
        for month in compact(spark, results, days_before(night, options.compact_after)):
            print(f"merged the results of {month}", file=sys.stderr)
    except (PySparkException, Py4JError, OSError, BadCommit) as error:
        print(f"note: old results were not merged: {failure_of(error).line}", file=sys.stderr)


def _on_sigterm(*_: object) -> NoReturn:
    """Print that there is no verdict, and exit in order: this ends Spark's processes and removes temporary folders."""
    print("could not judge: ended by a signal", flush=True)
    sys.exit(Verdict.UNJUDGED.exit_code)


def _compare(options: argparse.Namespace, results: "Results", spark: "SparkSession") -> Summary:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from app.tools.audit.check.check import CannotJudge, NightCheck, judge
    from app.tools.audit.check.failures import failure_of
    from app.tools.audit.format.commits import BadCommit

    try:
        return judge(spark, NightCheck(options.dumps, options.night, options.ignore, options.suppressions), results)
    except (CannotJudge, BadCommit) as error:
        return _without_verdict(options, str(error))
    except (PySparkException, Py4JError, OSError) as error:
        failure = failure_of(error)
        return replace(_without_verdict(options, f"Spark failed: {failure.line}"), error=failure.as_field())


def _publish(options: argparse.Namespace, results: "Results", summary: Summary) -> str | None:
    """Put the night's results in place, remove old ones, and return the path of the report.

    None, and nothing is written: an unjudged summary of an unknown night, or of one that was judged before.

    Raises:
        NotWritable: the output folder takes no files.
    """
    from app.tools.audit.check.results import NotWritable
    from app.tools.audit.report.report import render

    if summary.verdict is Verdict.UNJUDGED:
        before = results.summary(summary.night) if summary.night else None
        if not summary.night or (before is not None and before.verdict is not Verdict.UNJUDGED):
            return None
    try:
        path = results.publish(summary, render(summary, results.summaries(before=summary.night)))
    except OSError as error:
        raise NotWritable(f"cannot write to {options.out}: {error.strerror or error}") from None
    _remove_old(options, results, summary.night)
    return path


def _remove_old(options: argparse.Namespace, results: "Results", night: str) -> None:
    """Remove old nights and the files of interrupted checks; a failure here does not unpublish the night."""
    from app.tools.audit.format.commits import BadCommit

    try:
        for removed in results.remove_before(night, options.keep) if options.keep else ():
            print(f"removed the results of {removed}", file=sys.stderr)
        if abandoned := results.remove_abandoned():
            print(f"removed {abandoned} files of interrupted checks", file=sys.stderr)
    except (BadCommit, OSError) as error:
        print(f"note: old results were not removed: {error}", file=sys.stderr)


def _finish(options: argparse.Namespace, summary: Summary, results: "Results | None" = None) -> int:
    """Write the metrics file, post the alert, print notes and verdict; return the exit code of the verdict.

    A metrics file or an alert that fails is named on stderr, and changes no exit code.
    """
    if options.textfile:
        try:
            from app.tools.audit.report.textfile import write

            write(options.textfile, summary)
        except (OSError, ImportError) as error:
            print(f"the metrics were not written to {options.textfile}: {_reason(error)}", file=sys.stderr)
    if options.alert_url:
        _alert(options, summary, results)
    for note in summary.notes:
        print(f"note: {note}", file=sys.stderr)
    print(json_text(asdict(summary)) if options.json else summary.line, flush=True)
    return summary.verdict.exit_code


def _alert(options: argparse.Namespace, summary: Summary, results: "Results | None") -> None:
    try:
        from app.tools.audit.report.alert_bodies import AlertFormat
        from app.tools.audit.report.alert_state import AlertFile, Alerts, Recipient

        recipient = Recipient(options.alert_url, AlertFormat(options.alert_format), options.alert_cluster)
        try:
            file = AlertFile(options.out)
        except (ImportError, ValueError, OSError):
            file = None  # the verdict says so, too, so the recipients still learn of it
        nights = [night for night in results.nights() if night < summary.night] if results else []
        before = results.summary(nights[-1]) if results and nights else None
        delivery = Alerts(recipient, file).tell(summary, before)
        if delivery and not delivery.delivered:
            print(f"the alert was not delivered: {delivery.reason}", file=sys.stderr)
    except ImportError as error:
        print(f"the alert was not delivered: {error}", file=sys.stderr)
    except OSError as error:
        print(f"the list of open alerts cannot be saved in {options.out}: {_reason(error)}", file=sys.stderr)


def _reason(error: OSError | ImportError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _without_verdict(options: argparse.Namespace, reason: str) -> Summary:
    """Return the unjudged summary with a reason, for the night asked for, else for the latest night with a dump."""
    night = options.night
    if night is None:
        try:
            from app.tools.audit.format.layout import nights

            night = (nights(options.dumps) or [""])[-1]
        except (OSError, ValueError, ImportError):
            night = ""
    return unjudged(night, reason)


def _classes(text: str) -> frozenset[FindingClass]:
    try:
        return frozenset(FindingClass(name.strip()) for name in text.split(",") if name.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; the classes are {', '.join(FindingClass)}") from None
