"""The Spark session of the audit: the one that spark-submit made, or a new one."""

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from app.tools.audit.check.archive import archive_options
from app.tools.audit.check.java import NoJava, prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*]"
FEW_ROWS = 200_000
"""The most rows for which compiling an expression takes longer than interpreting it, and one task suffices."""
MEMORY_FEW_ROWS_MIB = 768
MEMORY_MIN_MIB = 1024
MEMORY_MAX_MIB = 8 * 1024
"""Bounds of the driver's default memory, half of the machine's. With a local master the driver does all the work."""
BYTES_PER_ROW = 200
"""The memory for each row with which shuffles and explained rows stay off the disk."""

_LOG4J = Path(__file__).with_name("log4j2.properties")
_LOG4J_OPTION = "-Dlog4j2.configurationFile="
_FIXED = {
    # Rows hold times as numbers; the times that Spark itself makes must not depend on the machine.
    "spark.sql.session.timeZone": "UTC",
    # A night is a text: otherwise 2026-11-21 would come back as a date, and a folder named 0012 as 12.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.adaptive.enabled": "true",
}
_NO_LINES = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Otherwise PySpark looks up the line of the program for each column of an expression. Only a start takes it."""
_COMPILED = "-XX:-DontCompileHugeMethods"
"""An option for the main comparison, for which Spark generates a method beyond 8,000 bytes: Java only interprets such
methods without it."""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto -XX:ReservedCodeCacheSize=128m"
"""Options for few rows, where the start takes most of the time: no second compiler, no threads of a collector."""
_MEMORY = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)


NO_PYSPARK = "the check runs on Spark, and PySpark is not installed: pip install 'rollcall-registry[audit]'"


RELEASE_MIN = (4, 0)
"""The first release of Spark whose Python interface the check uses."""


NO_CONNECT = (
    "the check needs a Spark session with its own driver, not one of Spark Connect: "
    "give --master, or submit it with spark-submit --master"
)


class NoSpark(Exception):
    """No session can be opened; the text says why, and names a missing package to install."""


def open_session(
    master: str | None,
    app_name: str,
    *,
    shuffle_partitions: int,
    driver_memory: str | None = None,
    rows: int | None = None,
    remote: str | None = None,
    shows_progress: bool = False,
) -> "SparkSession":
    """Return a session that is quiet on stderr, for the master given, else on all cores of this machine.

    ``shows_progress``: draw a bar of each stage on stderr, which Java removes when the stage ends.

    ``rows``: how many it will read, where that is known; with few of them Java starts quickly and small.

    Under spark-submit it is the session that was submitted, with its master, memory and log; there the settings that
    results depend on are ours, and ``shuffle_partitions`` is used unless the submission says another.

    Raises:
        NoSpark: PySpark or Java is missing, PySpark is too old, Spark Connect is asked for, ``driver_memory`` is not a
            size, or Spark does not start.
    """
    if find_spec("pyspark") is None:
        raise NoSpark(NO_PYSPARK)
    if old := too_old(pyspark_version()):
        raise NoSpark(old)
    if asked := asks_for_connect(os.environ, master, remote):
        raise NoSpark(f"{NO_CONNECT} (requested by {asked})")
    # Spark looks for pandas and says that it is too new. The check does not use it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(shuffle_partitions)
    master = master or MASTER
    memory = driver_memory or os.environ.get("SPARK_DRIVER_MEMORY") or f"{default_memory_mib(rows)}m"
    if not _MEMORY.fullmatch(memory):
        raise NoSpark(f"driver memory {memory!r} is not a size such as 512m or 4g")
    try:
        chosen = prepare(os.environ)
    except NoJava as error:
        raise NoSpark(str(error)) from None
    archive = archive_options(os.environ, chosen)
    os.environ.update(spark_environ(os.environ, chosen.home, is_local=master.startswith("local")))
    warehouse = tempfile.mkdtemp(prefix="rollcall-spark-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    settings = {
        **_FIXED,
        **_NO_LINES,
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.warehouse.dir": warehouse,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join([_COMPILED, *([_QUICK] if _is_few(rows) else []), *archive]),
        "spark.executor.extraJavaOptions": _COMPILED,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(shows_progress).lower(),
    }
    return _start(master, app_name, settings)


def pyspark_version() -> str:
    """Return the release of the PySpark that Python imports, which is Spark's own under ``spark-submit``."""
    from pyspark import __version__

    return str(__version__)


def too_old(version: str) -> str | None:
    """Return why the check does not run on a release of Spark; None if it does."""
    parts = re.match(r"(\d+)\.(\d+)", version)
    if parts is None or (int(parts[1]), int(parts[2])) >= RELEASE_MIN:
        return None
    least = ".".join(map(str, RELEASE_MIN))
    return f"the check needs Spark {least} or newer, and this is Spark {version}: pip install 'pyspark>={least}'"


def asks_for_connect(environ: Mapping[str, str], master: str | None, remote: str | None) -> str | None:
    """Return the option, variable or default that asks for a session of Spark Connect; None for none."""
    if remote:
        return "--remote"
    if master and master.startswith("sc://"):
        return "--master"
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if environ.get(name):
            return f"the variable {name}"
    if environ.get("SPARK_API_MODE", "").lower() == "connect":
        return "the variable SPARK_API_MODE"
    folder = environ.get("SPARK_CONF_DIR")
    try:
        text = Path(folder, "spark-defaults.conf").read_text() if folder else ""
    except (OSError, ValueError):
        return None
    asked = re.search(r"^\s*(spark\.remote)[\s=:]|^\s*(spark\.api\.mode)[\s=:]+connect\b", text, re.MULTILINE)
    return f"{asked[1] or asked[2]} in spark-defaults.conf" if asked else None


def is_connect(spark: "SparkSession") -> bool:
    """Return whether a session made by the caller is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def spark_environ(environ: Mapping[str, str], java_home: Path, *, is_local: bool) -> dict[str, str]:
    """Return the variables to set before Spark starts; a local address or log that the operator chose stays."""
    changes = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    named = {"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"} & environ.keys()
    if is_local and not named:
        # The machine's name may resolve to any address, or to none.
        changes["SPARK_LOCAL_IP"] = "127.0.0.1"
    options = environ.get("SPARK_SUBMIT_OPTS", "")
    folder = environ.get("SPARK_CONF_DIR")
    has_own_log = _LOG4J_OPTION in options or (folder and Path(folder, "log4j2.properties").exists())
    if not has_own_log:
        changes["SPARK_SUBMIT_OPTS"] = f"{options} {_LOG4J_OPTION}{_LOG4J.as_uri()}".strip()
    return changes


def _is_few(rows: int | None) -> bool:
    return rows is not None and rows <= FEW_ROWS


def default_memory_mib(rows: int | None = None) -> int:
    """Return half of the memory that this process may use, within the bounds above; less for few rows.

    ``rows``: how many will be read; None where that is not known.
    """
    usable = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = group_limit(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    if limit is not None:
        usable = min(usable, limit)
    most = max(MEMORY_MIN_MIB, min(MEMORY_MAX_MIB, usable // 2 // 1024**2))
    if rows is None:
        return most
    return MEMORY_FEW_ROWS_MIB if _is_few(rows) else min(most, MEMORY_MIN_MIB + rows * BYTES_PER_ROW // 1024**2)


def group_limit(groups: Path, root: Path) -> int | None:
    """Return the least memory limit, in bytes, of a process's control group (version 2) and its parents, or None."""
    try:
        own = next(line for line in groups.read_text().splitlines() if line.startswith("0::/"))
    except (OSError, StopIteration):
        return None
    inner = Path(own.removeprefix("0::/"))
    limits = []
    for folder in (inner, *inner.parents):
        try:
            limits.append(int((root / folder / "memory.max").read_text()))
        except (OSError, ValueError):
            continue  # no such file in the uppermost group, and the word "max" in one without a limit
    return min(limits, default=None)


def _quiet() -> None:
    """Spare the operator PySpark's own record of an error that is raised as well: a page of JSON on stderr."""
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    logging.getLogger("SQLQueryContextLogger").disabled = True


def _submitted(shuffle_partitions: int) -> "SparkSession":
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    # A SparkConf of before knows nothing of what was submitted.
    SparkContext._ensure_initialized()  # noqa: SLF001  # PySpark has no public call that starts the JVM alone
    conf = SparkConf()
    for name, value in (("spark.remote", None), ("spark.api.mode", "connect")):
        said = conf.get(name)
        if said and value in (None, said.lower()):
            raise NoSpark(f"{NO_CONNECT} (requested by {name})")
    session = SparkSession.builder.getOrCreate()
    _quiet()
    for name, value in _FIXED.items():
        session.conf.set(name, value)
    if not session.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        session.conf.set("spark.sql.shuffle.partitions", str(shuffle_partitions))
    return session


def _start(master: str, app_name: str, settings: Mapping[str, str]) -> "SparkSession":
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from app.tools.audit.check.failures import failure_of

    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        _quiet()
        return session
    except (PySparkException, Py4JError, OSError) as error:
        raise NoSpark(f"Spark did not start on {master}: {failure_of(error).line}") from error
