"""Measure the speed of the nightly check against the least work that Spark could do with the same files.

For each size it makes a dump (three members, two rounds, some planted faults). Then it runs by turns, in one session, a
bare group-by over all files (explicit schema, hash of the values, minimum and maximum by key), the whole check of all
rows, the check by digests, and the same group-by in DuckDB. The checks include manifests, footers, comparison,
explanation, history, Parquet, JSON and report. Prints rows a second of each, the peak memory of the processes, and the
CPU time and shuffled bytes of stages.

    python -m scripts.bench.check --instances 100000,1000000 --master 'local[2]'
    python -m scripts.bench.check --instances 100000 --workers 2      # a standalone Spark cluster on this machine
"""

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.tools.audit.check import evidence as evidences
from app.tools.audit.check.check import judge
from app.tools.audit.check.evidence_rows import COLUMN_SCHEMA, spark_path
from app.tools.audit.check.night_check import NightCheck
from app.tools.audit.check.results import Results
from app.tools.audit.check.session import open_session
from app.tools.audit.format.layout import read_night
from app.tools.audit.format.part_format import PartFormat
from app.tools.audit.report.report import render
from scripts.synthetic.dump import SyntheticDump, all_faults, make_dump
from tests.support.processes import free_ports

KEY = ("namespace", "service", "cluster", "ip", "port")
START_TIMEOUT_S = 60


def main() -> int:
    options = _options()
    if options.size:
        return _measure(options)
    with tempfile.TemporaryDirectory(prefix="bench-check-", dir=options.folder) as folder:
        for size in options.instances:
            faults = all_faults(options.faults, options.members, "rollcall") if options.faults else {}
            for name in ("CORRUPT", "ABSENT_MEMBER"):
                faults.pop(name, None)
            dumps = Path(folder, f"dumps-{size}")
            started = time.monotonic()
            written = make_dump(
                SyntheticDump(
                    out=str(dumps),
                    instances=size,
                    members=options.members,
                    seed=1,
                    faults=faults,
                    part_format=PartFormat.PARQUET,
                    rows_per_part=500_000,
                )
            )
            print(
                f"{size:,} instances of {written.services:,} services at {options.members} members, two rounds: "
                f"{written.rows:,} rows, {written.bytes / 1e6:.0f} MB ({written.plain_bytes / 1e6:.0f} plain), "
                f"made in {time.monotonic() - started:.0f} s",
                flush=True,
            )
            # One process for each size, so that memory peaks belong to one size.
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "scripts.bench.check",
                    *sys.argv[1:],
                    "--size",
                    str(size),
                    "--dumps",
                    str(dumps),
                ],
                check=True,
            )
    return 0


def _measure(options: argparse.Namespace) -> int:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-check-out-", dir=options.folder)))
        events = folder / "events"
        events.mkdir()
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--conf spark.eventLog.enabled=true --conf spark.eventLog.dir=file://{events} "
            "--conf spark.eventLog.compress=false --conf spark.eventLog.rolling.enabled=false pyspark-shell"
        )
        master = stack.enter_context(_cluster(options.workers, folder)) if options.workers else options.master
        spark = open_session(master, "bench", shuffle_partitions=4, driver_memory=options.driver_memory)
        stack.callback(spark.stop)
        night = read_night(options.dumps)
        files = evidences.files_of(night)
        rows = sum(file.part.rows for file in files)
        paths = [spark_path(file.path, options.dumps) for file in files]
        for turn in range(1, options.turns + 1):
            bare_s = _timed(lambda: _bare(spark, paths))
            results = Results(str(folder / f"out-{turn}"))
            check_s = _timed(lambda: print("  ", _whole(spark, options.dumps, results, full=True)))  # noqa: B023
            again = Results(str(folder / f"out-digests-{turn}"))
            less_s = _timed(lambda: print("  ", _whole(spark, options.dumps, again, full=False)))  # noqa: B023
            duck_s = _timed(lambda: _duckdb([file.path for file in files]))
            print(
                f"  turn {turn} on {master}: bare {rows / bare_s:,.0f} rows/s ({bare_s:.1f} s), "
                f"check of all rows {rows / check_s:,.0f} rows/s ({check_s:.1f} s), ratio {bare_s / check_s:.2f}; "
                f"by digests {rows / less_s:,.0f} rows/s ({less_s:.1f} s), ratio {bare_s / less_s:.2f}; "
                f"DuckDB's group-by {rows / duck_s:,.0f} rows/s ({duck_s:.1f} s)",
                flush=True,
            )
        for name, peak in _peaks():
            print(f"  peak memory of {name}: {peak / 1024:.0f} MB")
        for line in _stages(events):
            print(f"  {line}")
    return 0


def _bare(spark: SparkSession, paths: list[str]) -> None:
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * cores))
    spark.conf.set("spark.sql.files.minPartitionNum", str(4 * cores))
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 18))
    spark.conf.unset("spark.sql.codegen.wholeStage")
    spark.conf.unset("spark.sql.codegen.factoryMode")
    spark.sparkContext.setJobDescription("bare")
    value = F.xxhash64("healthy", "enabled", "weight", "metadata")
    rows = spark.read.schema(COLUMN_SCHEMA).parquet(*paths).select(*KEY, value.alias("value"))
    least_and_most = rows.groupBy(*KEY).agg(F.min("value").alias("least"), F.max("value").alias("most"), F.count("*"))
    least_and_most.where("least != most").count()


def _duckdb(paths: list[str]) -> None:
    """Run the bare group-by in DuckDB with two threads."""
    key = ", ".join(KEY)
    rows = f"SELECT {key}, hash(healthy, enabled, weight, metadata) AS value FROM read_parquet($paths)"
    groups = f"SELECT min(value) AS least, max(value) AS most, count(*) FROM ({rows}) GROUP BY {key}"
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute(f"SELECT count(*) FROM ({groups}) WHERE least <> most", {"paths": paths}).fetchall()


def _whole(spark: SparkSession, dumps: str, results: Results, *, full: bool) -> str:
    spark.sparkContext.setJobDescription("check of all rows" if full else "check by digests")
    results.open()
    summary = judge(spark, NightCheck(dumps, full=full), results)
    results.publish(summary, render(summary, []))
    results.close()
    spark.catalog.clearCache()
    return summary.line


def _timed(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def _peaks() -> Iterator[tuple[str, int]]:
    """Peak resident memory, in KiB, of this process and of all its children."""
    children = {os.getpid(): "this process"}
    for entry in sorted(Path("/proc").iterdir(), key=lambda path: int(path.name) if path.name.isdecimal() else 0):
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, StopIteration):
            status = (entry / "status").read_text().splitlines()
            parent = int(next(line for line in status if line.startswith("PPid:")).split()[1])
            peak = int(next(line for line in status if line.startswith("VmHWM:")).split()[1])
            pid = int(entry.name)
            if pid in children or parent in children:
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                role = next(
                    (word.rpartition(".")[2] for word in command if word.startswith("org.apache.spark")), "Python"
                )
                children[pid] = role
                yield role, peak


def _stages(events: Path) -> Iterator[str]:
    """List each stage that took over 0.1 s of CPU time, with the bytes and rows that it shuffled and spilled."""
    stages: dict[int, str] = {}
    totals: dict[int, list[int]] = {}
    for log in events.rglob("*"):
        for line in log.read_text().splitlines() if log.is_file() else []:
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                name = event.get("Properties", {}).get("spark.job.description", "")
                stages |= dict.fromkeys(event["Stage IDs"], name)
            elif event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event:
                metrics = event["Task Metrics"]
                written = metrics["Shuffle Write Metrics"]
                found = totals.setdefault(event["Stage ID"], [0, 0, 0, 0])
                for index, count in enumerate(
                    (
                        metrics["Executor CPU Time"],
                        written["Shuffle Bytes Written"],
                        written["Shuffle Records Written"],
                        metrics["Disk Bytes Spilled"],
                    )
                ):
                    found[index] += count
    for stage, (cpu_ns, size, records, spilled) in sorted(totals.items()):
        if cpu_ns > 100_000_000:
            yield (
                f"stage {stage} ({stages.get(stage)}): {cpu_ns / 1e9:.1f} CPU-s, shuffled {size / 1e6:.1f} MB, "
                f"{records:,} rows; spilled {spilled / 1e6:.0f} MB"
            )


@contextlib.contextmanager
def _cluster(workers: int, folder: Path) -> Iterator[str]:
    """A standalone Spark cluster of workers with one core each, stopped by process id."""
    import pyspark

    from app.tools.audit.check.java import prepare

    home = Path(pyspark.__file__).parent
    environ = {**os.environ, "JAVA_HOME": str(prepare(os.environ).home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environ |= {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOG_DIR": str(folder), "SPARK_NO_DAEMONIZE": "1"}
    [port] = free_ports(1)
    command = [str(home / "bin" / "spark-class")]
    master = f"spark://127.0.0.1:{port}"
    calls = [["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    calls += [
        ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "3g", "--webui-port", "0", master]
        for _ in range(workers)
    ]
    processes = []
    try:
        for number, call in enumerate(calls):
            with (folder / f"spark-{number}.log").open("wb") as log:
                processes.append(subprocess.Popen(command + call, env=environ, stdout=log, stderr=log))
            _await_port(port)
        yield master
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(START_TIMEOUT_S)


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"Spark's master does not listen on port {port}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--instances", type=lambda text: [int(one) for one in text.split(",")], default=[100_000])
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--faults", type=int, default=5, help="of each class (5); 0 for none")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument(
        "--workers", type=int, help="instead of --master: a standalone cluster with this number of workers"
    )
    parser.add_argument("--driver-memory", default="2g")
    parser.add_argument(
        "--folder", help="folder for the dumps, the results and Spark's files (the system's temporary folder)"
    )
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dumps", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
