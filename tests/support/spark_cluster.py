"""A standalone Spark cluster on loopback: a master and its workers, from the package that is installed."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.support.processes import eventually, free_ports

START_S = 120.0
STOP_S = 30.0
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"}
"""For processes that are over before a second compiler would pay off, an application's executors among them."""
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def spark_cluster(folder: Path, workers: int, memory: str) -> Iterator[str]:
    """The URL of a master with so many workers, of a core and this memory each; all of it ends with the block.

    There is no Python for executors: whatever needs one fails.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    master, page, *ports = free_ports(2 + 2 * workers)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ = kept | {
        **QUICK_JAVA,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_PID_DIR": str(folder),
        "PYSPARK_PYTHON": "/nonexistent/python",
    }
    url = f"spark://127.0.0.1:{master}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> None:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [str(home / "bin" / "spark-class"), *arguments]
            stack.enter_context(_ending(subprocess.Popen(command, env=environ, stdout=log, stderr=log, cwd=folder)))

        start("master", MASTER, "--host", "127.0.0.1", "--port", str(master), "--webui-port", str(page))
        for number in range(workers):
            port, web = ports[2 * number : 2 * number + 2]
            places = ["--port", str(port), "--webui-port", str(web), "--work-dir", str(folder / f"work-{number}")]
            start(f"worker-{number}", WORKER, "--host", "127.0.0.1", "--cores", "1", "--memory", memory, *places, url)
        eventually(lambda: _alive(page) == workers, START_S)
        yield url


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process after the block, and wait until it is gone: a worker ends its executors before."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def _alive(port: int) -> int:
    """The number of workers that the master knows; 0 while it does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return 0
