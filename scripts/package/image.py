"""Builds the image, runs it with a read-only root as an operator would, and prints its size and times.

``python -m scripts.package.image [--base IMAGE | --debian SUITE] [OPTION of the build ...]``, with Docker or podman.
The exit code is 0 if the container works.
"""

import argparse
import gzip
import http.client
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAG = "rollcall:local"
BUILD_S, STEP_S, READY_S = 3_600, 300, 120
POLL_S = 0.05
OUTPUT_CHARS_MAX = 4_000
DEBIAN = (
    "--variant=minbase",
    "--include=python3,python3-venv,ca-certificates,passwd",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
)
INSIDE = """
import json, os, pathlib
of = {name: value.split() for name, _, value in (line.partition(":") for line in open("/proc/1/status"))}
pids = [one for one in os.listdir("/proc") if one.isdigit() and int(one) != os.getpid()]
ticks = sum(int(part) for pid in pids for part in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13])
rows = [row.split() for pid in pids for row in open(f"/proc/{pid}/smaps_rollup")]
try:
    open("/opt/rollcall/new", "w")
    error = 0
except OSError as refused:
    error = refused.errno
capabilities = [int(of[one][0], 16) for one in ("CapEff", "CapBnd")]
print(json.dumps({
    "rights": [of["Uid"], of["Gid"], *capabilities, of["NoNewPrivs"][0], error],
    "own": sum(one.lstat().st_size for one in pathlib.Path("/opt/rollcall").rglob("*")),
    "cpu_s": ticks / os.sysconf("SC_CLK_TCK"),
    "memory_kb": sum(int(row[1]) for row in rows if row[0] == "Pss:"),
}))
"""
"""A program that runs in the container, and prints the rights of its first process and what all use."""
RIGHTS = [["10848"] * 4, ["10848"] * 4, 0, 0, "1", 30]
"""uid, gid, capabilities now and at most, no_new_privs, and EROFS for a write outside of the data folder."""


class ImageFailed(Exception):
    """A command failed, or the container did not do what it should; the text says which."""


class Tool:
    """The command of Docker or podman."""

    def __init__(self, words: Sequence[str]) -> None:
        """``words``: the command and options that each of its calls has."""
        self._words = list(words)
        self.is_podman = Path(self._words[0]).name == "podman"

    def run(self, *words: str | Path, timeout_s: float = STEP_S) -> str:
        """Return what a command prints.

        Raises:
            ImageFailed: it failed; the text has the end of its output.
        """
        return _output([*self._words, *words], timeout_s)

    def log(self, name: str) -> str:
        """Return the end of what a container wrote."""
        words = [*self._words, "logs", name]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=STEP_S)
        return done.stdout.decode(errors="replace")[-OUTPUT_CHARS_MAX:]

    def save(self, tag: str, file: Path) -> None:
        """Write an image into a compressed archive: ``zcat FILE | docker load`` reads it.

        Raises:
            ImageFailed: the tool failed.
        """
        with (
            subprocess.Popen([*self._words, "save", tag], stdout=subprocess.PIPE) as saving,
            gzip.open(file, "wb") as compressed,
        ):
            assert saving.stdout is not None
            shutil.copyfileobj(saving.stdout, compressed)
        if saving.returncode:
            raise ImageFailed(f"{self._words[0]} save {tag}: exit code {saving.returncode}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and try the image; return 0 if all works, else 1."""
    parser = argparse.ArgumentParser(prog="image", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--tool", type=shlex.split, help="docker or podman, with its options; otherwise the first found"
    )
    parser.add_argument("--tag", default=TAG, help="name of the image (%(default)s)")
    base = parser.add_mutually_exclusive_group()
    base.add_argument(
        "--base", metavar="IMAGE", help="base with Python 3.11 or newer, instead of the one in Dockerfile"
    )
    base.add_argument("--debian", metavar="SUITE", help="make the base from this Debian with mmdebstrap: trixie")
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the image into this .tar.gz")
    given, options = parser.parse_known_args(arguments)
    words = given.tool or next(([one] for one in ("docker", "podman") if shutil.which(one)), None)
    if words is None:
        print("image: neither docker nor podman is in the path", file=sys.stderr)
        return 1
    tool = Tool(words)
    try:
        if given.debian:
            given.base = debian_base(tool, given.debian)
        build(tool, given.tag, given.base, options)
        rows = trial(tool, given.tag)
        if given.save:
            tool.save(given.tag, given.save)
            rows.append(("compressed archive", f"{given.save.stat().st_size / 1e6:.0f} MB"))
    except ImageFailed as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print("| figure | value |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")
    return 0


def debian_base(tool: Tool, suite: str) -> str:
    """Make a base of Debian's packages alone, and return its name.

    Raises:
        ImageFailed: mmdebstrap or the import failed.
    """
    name = f"localhost/python-base:{suite}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "base.tar"
        _output(["mmdebstrap", *DEBIAN, suite, file], BUILD_S)
        tool.run("import", file, name)
    return name


def build(tool: Tool, tag: str, base: str | None, options: Sequence[str]) -> None:
    """Build the image from the tree.

    Raises:
        ImageFailed: the build failed.
    """
    words = ["--build-arg", f"PYTHON_IMAGE={base}"] if base else []
    if tool.is_podman:
        words += ["--format", "docker"]  # an image of OCI has no health check
    file = ROOT / "deploy" / "docker" / "Dockerfile"
    print(f"builds {tag}", file=sys.stderr)
    tool.run("build", *words, *options, "--file", file, "--tag", tag, ROOT, timeout_s=BUILD_S)


def trial(tool: Tool, tag: str) -> list[tuple[str, str]]:
    """Start a container twice on one volume, use it, and return sizes and times as rows.

    Raises:
        ImageFailed: it did not serve, may do too much, did not stop by itself, or forgot durable data.
    """
    name = f"rollcall-trial-{os.getpid()}"
    options = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *limits()]
    options += ["--volume", f"{name}:/data", "--publish", "127.0.0.1::8848", "--stop-timeout", "30", tag]
    whole = int(tool.run("image", "inspect", "--format", "{{.Size}}", tag))
    rows: list[tuple[str, str]] = []
    try:
        for title in ("first start", "start with data"):
            begun_s = time.monotonic()
            tool.run("run", "--detach", "--name", name, *options)
            url = f"http://{tool.run('port', name, '8848/tcp').split()[0]}/nacos/v1"
            _wait_ready(tool, name, url)
            ready_s = time.monotonic() - begun_s
            used = json.loads(tool.run("exec", name, "python3", "-c", INSIDE))
            _check(tool, name, used["rights"])
            if not rows:
                _call("POST", f"{url}/ns/instance?serviceName=orders&ip=10.0.0.7&port=8080&ephemeral=false")
            listed = json.loads(_call("GET", f"{url}/ns/instance/list?serviceName=orders"))["hosts"]
            if [one["ip"] for one in listed] != ["10.0.0.7"]:
                raise ImageFailed(f"{title}: the list has not the instance that was registered: {listed}")
            begun_s = time.monotonic()
            tool.run("stop", name)
            if not rows:
                rows = [("image", f"{whole / 1e6:.0f} MB"), ("without its base", f"{used['own'] / 1e6:.0f} MB")]
            rows += [
                (f"{title}: until it serves", f"{ready_s:.1f} s"),
                (f"{title}: CPU time until then", f"{used['cpu_s']:.1f} s"),
                (f"{title}: memory then (PSS)", f"{used['memory_kb'] / 1e3:.0f} MB"),
                (f"{title}: stop", f"{time.monotonic() - begun_s:.1f} s"),
            ]
            if (code := tool.run("inspect", "--format", "{{.State.ExitCode}}", name).strip()) != "0":
                raise ImageFailed(f"{title}: the container stopped with {code}")
            tool.run("rm", name)
    finally:
        tool.run("rm", "--force", name)
        tool.run("volume", "rm", "--force", name)
    return rows


def limits() -> list[str]:
    """Return options for the limits of a container: no more than this process may have, which only root could give."""
    options = []
    for name, wanted in (("nofile", 65_536), ("nproc", 4_096)):
        allowed = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        options += ["--ulimit", f"{name}={wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed)}"]
    return options


def _wait_ready(tool: Tool, name: str, url: str) -> None:
    end_s = time.monotonic() + READY_S
    while True:
        try:
            _call("GET", f"{url}/console/health/readiness")
            return
        except ImageFailed as error:
            is_running = tool.run("inspect", "--format", "{{.State.Running}}", name).strip() == "true"
            if not is_running or time.monotonic() > end_s:
                why = f"does not serve after {READY_S} s: {error}" if is_running else "exited"
                raise ImageFailed(f"the container {why}\n{tool.log(name)}") from None
        time.sleep(POLL_S)


def _check(tool: Tool, name: str, rights: list[object]) -> None:
    """Require of a container the rights of RIGHTS, and a health check that passes."""
    if rights != RIGHTS:
        raise ImageFailed(f"the container has the rights {rights} instead of {RIGHTS}")
    checked = json.loads(tool.run("inspect", "--format", "{{json .Config.Healthcheck}}", name))
    tool.run("exec", name, *checked["Test"][1:])


def _call(method: str, url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method), timeout=STEP_S) as answer:
            text: str = answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise ImageFailed(f"{method} {url}: {error}") from None
    return text


def _output(words: Sequence[str | Path], timeout_s: float) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageFailed(str(error)) from None
    if done.returncode:
        said = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise ImageFailed(f"{shlex.join(map(str, words))[:OUTPUT_CHARS_MAX]}: exit code {done.returncode}\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
