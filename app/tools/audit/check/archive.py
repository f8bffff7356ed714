"""A class-data archive for Spark's Java: its classes as they are in memory, made once and mapped at each later start.

Of a small night, most CPU time goes into reading and verifying some 10,000 classes. Java leaves an archive aside that
does not fit its version or its class path, so the worst of an old archive is that it saves nothing.
"""

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.rows.rows import client_row, encode_row, instance_row, record_row, service_row
from app.tools.audit.check.java import JavaChoice, NoJava, prepare
from app.tools.audit.dump.parts import PartWriter
from app.tools.audit.dump.store import Store
from app.tools.audit.format.layout import member_folders, round_folder, taken_at_text
from app.tools.audit.format.manifest import DumpState, Manifest, MemberDump, Seen
from app.tools.audit.format.part_format import PartFormat, has_parquet

TIMEOUT_S = 900
"""The longest time for the check whose classes are kept, and for writing them, on a busy machine."""
OUTPUT_CHARS_MAX = 500
STATE = "/var/lib/rollcall-audit"
"""The folder of the nightly run, unless ``ROLLCALL_AUDIT_STATE`` names another."""
_AT_EXIT = "-XX:ArchiveClassesAtExit="
# Java would warn on its output about an archive that does not fit.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_MEMBERS = ("10.0.0.1:8848", "10.0.0.2:8848")
_GAP_MS = 15_000


class NoArchive(Exception):
    """No archive can be made; the text says why."""


def archive_options(environ: Mapping[str, str], chosen: JavaChoice) -> list[str]:
    """Return the options of Java that use the archive; none without one, or if others could have written it."""
    path = _path(environ, chosen)
    if path is None or _AT_EXIT in environ.get("SPARK_SUBMIT_OPTS", "") or not _is_ours(path):
        return []
    base = _base_of(path)
    if base.exists() and not _is_ours(base):
        return []
    return [f"-XX:SharedArchiveFile={base}:{path}" if base.exists() else f"-XX:SharedArchiveFile={path}", *_QUIET]


def make_archive(environ: Mapping[str, str]) -> Path:
    """Check a small night that is made up, keep the classes that Java has loaded for it, and return the archive.

    Raises:
        NoArchive: there is no fit Java, no PySpark or no folder, or the check failed.
    """
    if find_spec("pyspark") is None:
        raise NoArchive("PySpark is not installed: pip install 'rollcall-registry[audit]'")
    try:
        chosen = prepare(environ)
    except NoJava as error:
        raise NoArchive(str(error)) from None
    path = _path(environ, chosen)
    if path is None:
        raise NoArchive("there is no folder for it: set ROLLCALL_AUDIT_STATE, XDG_CACHE_HOME or HOME")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=path.parent) as folder:
            made = _made(environ, chosen, Path(folder), path)
        if not _is_ours(made):
            raise NoArchive(f"{path.parent} can be written by other users, who could change the classes of Spark there")
    except OSError as error:
        raise NoArchive(f"{path.parent} cannot be used: {error.strerror or error}") from None
    for old in {*path.parent.glob("spark-*.jsa"), *path.parent.glob("spark-*.base")} - {path, _base_of(path)}:
        old.unlink(missing_ok=True)
    return path


def _made(environ: Mapping[str, str], chosen: JavaChoice, folder: Path, path: Path) -> Path:
    unfinished = folder / "spark.jsa"
    options = f"{_AT_EXIT}{unfinished}"
    # An archive of the classes of programs rests on one of Java's own, which a runtime cut to its modules may lack.
    if not (_home_of(chosen.java) / "lib" / "server" / "classes.jsa").exists():
        base = folder / "java.jsa"
        _call([str(chosen.java), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"], environ)
        base.replace(_base_of(path))
        options = f"{options} -XX:SharedArchiveFile={_base_of(path)}"
    _write_night(folder / "dumps")
    package = __name__.rpartition(".")[0]
    code = f"import sys; from {package}.command import main; sys.exit(main(sys.argv[1:]))"
    submit = " ".join(filter(None, [environ.get("SPARK_SUBMIT_OPTS"), options]))
    root = str(Path(__file__).resolve().parents[4])
    paths = os.pathsep.join(filter(None, [root, environ.get("PYTHONPATH")]))
    arguments = ["--dumps", str(folder / "dumps"), "--out", str(folder / "out")]
    # Java ends after Python, and only then writes the archive: its output is waited for.
    _call(
        [sys.executable, "-c", code, *arguments],
        {**environ, "SPARK_SUBMIT_OPTS": submit, "PYTHONPATH": paths},
        code=1,
    )
    if not unfinished.exists():
        raise NoArchive(f"{chosen.java} (version {chosen.version}) wrote none")
    unfinished.replace(path)
    return path


def _call(command: list[str], environ: Mapping[str, str], code: int = 0) -> None:
    """Run a command to the end of its output.

    Raises:
        NoArchive: it ends with another exit code, or not in time.
    """
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoArchive(f"{command[0]} did not end within {TIMEOUT_S} s") from None
    if done.returncode != code:
        raise NoArchive(f"{command[0]} ended with exit code {done.returncode}: {done.stdout[-OUTPUT_CHARS_MAX:]}")


def _path(environ: Mapping[str, str], chosen: JavaChoice) -> Path | None:
    """Return the place of the archive for this Java and this Spark, in a folder of this user."""
    folder = _folder(environ)
    if folder is None or any(one.isspace() or one in "\"'\\:" for one in str(folder)):
        return None
    try:
        java = _home_of(chosen.java) / "bin" / "java"
        info = java.stat() if java.exists() else chosen.java.stat()
        spark = version("pyspark")
    except (OSError, ModuleNotFoundError):
        return None
    found = find_spec("pyspark")
    facts = (java, info.st_size, info.st_mtime_ns, spark, found and found.origin, environ.get("SPARK_HOME"))
    key = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return folder / f"spark-{key}.jsa"


def _folder(environ: Mapping[str, str]) -> Path | None:
    state = environ.get("ROLLCALL_AUDIT_STATE") or (STATE if os.access(STATE, os.W_OK) else None)
    if state:
        return Path(state, "java").absolute()
    if cache := environ.get("XDG_CACHE_HOME"):
        return Path(cache, "rollcall").absolute()
    return Path(home, ".cache", "rollcall").absolute() if (home := environ.get("HOME")) else None


def _base_of(path: Path) -> Path:
    return path.with_suffix(".base")


def _home_of(java: Path) -> Path:
    return java.resolve().parent.parent


def _is_ours(path: Path) -> bool:
    """Return whether a file and its folder can be changed by this user and root alone: Java runs what is in it."""
    try:
        infos = [path.stat(), path.parent.stat()]
    except OSError:
        return False
    writable = stat.S_IWGRP | stat.S_IWOTH
    return all(info.st_uid in (0, os.geteuid()) and not info.st_mode & writable for info in infos)


def _write_night(root: Path) -> None:
    """Write the dump of a night in which two members differ in each kind of row."""
    store = Store(str(root))
    part_format = PartFormat.PARQUET if has_parquet() else PartFormat.JSON
    names = member_folders(_MEMBERS)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    for number in (1, 2):
        taken_at = taken_at_text(time.time_ns() // 1_000_000 + number * _GAP_MS)
        folder = round_folder(store.root, date, taken_at)
        store.make_folder(folder)
        dumps = []
        for place, address in enumerate(_MEMBERS):
            writer = PartWriter(store.filesystem, folder, names[address], part_format)
            for row in _rows(place):
                writer.write(encode_row(row), row)
            listed = [Seen(one, "UP") for one in _MEMBERS]
            dumps.append(MemberDump(address, DumpState.DUMPED, "rollcall", members=listed, parts=writer.close()))
        store.write_manifest(folder, Manifest("prepare", date, taken_at, number, 2, _GAP_MS / 1000, dumps))


def _rows(place: int) -> list[dict[str, Any]]:
    """Return the rows of a member; the second one lacks an instance, and departs in the rest."""
    own = service_row("public", "DEFAULT_GROUP@@made-up", f"1.{place}.a", _MEMBERS[0], 2 - place)
    instances = [
        instance_row(
            namespace="public",
            service="DEFAULT_GROUP@@made-up",
            cluster="DEFAULT",
            ip=f"10.0.1.{number}",
            port=8080,
            ephemeral=True,
            healthy=True,
            enabled=True,
            weight=1.0 + place,
            metadata={"place": str(place)},
            version=f"1.{place}.a",
            owner=_MEMBERS[0],
        )
        for number in range(2 - place)
    ]
    return [own, *instances, record_row("switches/all", {"place": place}), client_row("1_10.0.1.1_1", place)]
