"""Check the verdict of the audit on each kind of fault and on the worst nights.

Makes a dump for each case, runs the check, and prints the planted faults, how many of them were reported, other
reports, its exit code and last line, the first finding of the posted alert, and the verdict in the metrics file.
Exit code 1 when the check missed a planted fault or reported one that was not planted.

    python -m scripts.chaos.verdicts
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from app.tools.audit.check import command
from app.tools.audit.check.session import open_session
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.dump import SyntheticDump, make_dump
from scripts.synthetic.faults import CORRUPT_FILE, LATE, PLANTS
from scripts.synthetic.planting import Planted, told

NIGHT = "2026-11-21"
MEMBERS = 3
Edit = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One dump: its faults, the damage to its files, and the expected report.

    ``told``: the classes and members that must be reported instead of the planted faults; None if these are expected.
    """

    name: str
    faults: dict[str, int] = field(default_factory=dict)
    edit: Edit = lambda _folder: None
    told: Counter[tuple[str, str]] | None = None
    exit_code: int = 1
    instances: int = 600
    is_behind: bool = False


class Alerts:
    """A server on loopback that keeps the bodies of all POST requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    @contextlib.contextmanager
    def open(self) -> Iterator["Alerts"]:
        with ThreadPoolExecutor(1, thread_name_prefix="alerts") as pool, self._server:
            pool.submit(self._server.serve_forever)
            try:
                yield self
            finally:
                self._server.shutdown()


# --- damage to a dump ------------------------------------------------------------------------


def manifests(folder: Path) -> list[Path]:
    """The manifests of the rounds, in order."""
    return sorted(folder.glob("dump_date=*/taken_at=*/_manifest.json"))


def change(path: Path, edit: Callable[[list[dict[str, Any]]], None]) -> None:
    manifest = json.loads(path.read_text())
    edit(manifest["members"])
    path.write_text(json.dumps(manifest))


def emptied(*numbers: int) -> Edit:
    """Members that answer but hold no data."""

    def empty(members: list[dict[str, Any]]) -> None:
        for one in numbers:
            members[one].update(parts=[], services=0, instances=0)

    def edit(folder: Path) -> None:
        for path in manifests(folder):
            change(path, empty)

    return edit


def absent(number: int, rounds: tuple[int, ...]) -> Edit:
    """A member that does not answer in these rounds."""

    gone = {"state": "absent", "error": "connection refused", "parts": [], "members": []}

    def edit(folder: Path) -> None:
        for one in rounds:
            change(manifests(folder)[one - 1], lambda members: members[number].update(gone))

    return edit


def cut_off(folder: Path) -> None:
    """A dump with an unfinished second round."""
    manifests(folder)[1].unlink()


def address(number: int) -> str:
    return f"10.0.0.{number + 1}:8848"


def cases() -> list[Case]:
    """All kinds of faults, one dump each, and the worst nights."""
    single = [Case(str(name), {name: 6}, exit_code=0 if name == LATE else 1) for name in PLANTS]
    members = [
        Case(str(name), {name: 1}) for name in (FindingClass.MEMBERSHIP, FindingClass.ABSENT_MEMBER, CORRUPT_FILE)
    ]
    # One service of each dump has no instances.
    lost = {
        number: Counter({("MISSING", address(number)): 600, ("SERVICE", address(number)): 1})
        for number in range(MEMBERS)
    }
    return [
        *single,
        *members,
        Case("nothing planted", exit_code=0),
        Case("a member that holds nothing", edit=emptied(2), told=lost[2]),
        Case("two members that hold nothing", edit=emptied(1, 2), told=lost[1] + lost[2]),
        Case("all members hold nothing", edit=emptied(0, 1, 2), told=Counter(), exit_code=0),
        Case("absent in round 1", edit=absent(1, (1,)), told=Counter({("ABSENT_MEMBER", address(1)): 1})),
        Case("absent in round 2", edit=absent(1, (2,)), told=Counter({("ABSENT_MEMBER", address(1)): 1})),
        Case("two absent in both rounds", edit=_two_absent, told=Counter(), exit_code=2),
        Case("a dump that was cut off", edit=cut_off, told=Counter(), exit_code=2),
        Case("everything suspect", is_behind=True, told=Counter({("BEHIND", address(2)): 601})),
    ]


def _two_absent(folder: Path) -> None:
    for number in (1, 2):
        absent(number, (1, 2))(folder)


# --- the check -----------------------------------------------------------------------------------


def run(case: Case, spark: SparkSession, folder: Path, alerts: Alerts) -> bool:
    """Check the dump of a case and print a row; return whether exactly the planted faults were reported."""
    plan = SyntheticDump(
        str(folder / "dumps"),
        case.instances,
        MEMBERS,
        7,
        faults=case.faults,
        date=NIGHT,
        part_format=PartFormat.PARQUET,
        last_is_behind=case.is_behind,
    )
    written = make_dump(plan)
    case.edit(folder / "dumps")
    posted, metrics = len(alerts.bodies), folder / "rollcall.prom"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        places = ["--dumps", str(folder / "dumps"), "--out", str(folder / "out"), "--night", NIGHT]
        code = command.main([*places, "--alert-url", alerts.url, "--textfile", str(metrics)], spark)
    spark.catalog.clearCache()
    found = [
        json.loads(line)
        for path in sorted(folder.glob(f"out/findings_json/night={NIGHT}/*.json"))
        for line in path.read_text().splitlines()
    ]
    planted, seen = _wanted(case, written.planted), Counter(map(told, found))
    if case.told is not None:
        seen = Counter((one["finding_class"], one["member"]) for one in found if one["lasting"])
    missing, extra = planted - seen, seen - planted
    body = alerts.bodies[-1] if len(alerts.bodies) > posted else {}
    example = next((f"{one['finding_class']} {one['member']}" for one in body.get("examples", [])), "no finding")
    verdicts = [line for line in metrics.read_text().splitlines() if line.startswith("rollcall_check_verdict{")]
    verdict = next(line for line in verdicts if line.endswith(" 1.0"))
    whole = not missing and not extra and code == case.exit_code and bool(body) == (code != 0)
    print(
        f"{'ok   ' if whole else 'WRONG'} {case.name}: planted {planted.total()}, told {(planted & seen).total()}, "
        f"extra {extra.total()}; exit code {code}\n      {out.getvalue().strip()}\n"
        f"      alert: {body.get('verdict', 'none')}{', ' + example if body else ''}; metrics: {verdict}",
        flush=True,
    )
    return whole


def _wanted(case: Case, planted: list[Planted]) -> Counter[Any]:
    if case.told is not None:
        return Counter(case.told)
    return Counter(one.told for one in planted)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", help="cases whose names contain this")
    options = parser.parse_args()
    spark = open_session("local[2]", "verdicts", shuffle_partitions=2, rows=0)
    wrong = 0
    try:
        with Alerts().open() as alerts:
            for case in cases():
                if options.only in (None, "") or options.only in case.name:
                    with tempfile.TemporaryDirectory(prefix="verdicts-") as folder:
                        wrong += not run(case, spark, Path(folder), alerts)
    finally:
        spark.stop()
    print(f"{wrong} cases wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
