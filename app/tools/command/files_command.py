"""``rollcall files``: the files for running Rollcall that come with the package, written into a folder.

Exit codes: 0 written, 2 the folder cannot be used, or has other files of these names.
"""

import argparse
import shutil
import sys
from pathlib import Path

import app
from app.languages.command_texts import gettext
from app.languages.phrases import phrase, reason_of
from app.tools.printable import printable

DEPLOY = "deploy"
LEFT_OUT = frozenset({"secrets", "__pycache__", ".gitignore"})
"""Names in a checkout's folder that no installed package has."""
NAMED_MAX = 5
"""How many files an error names."""


class FilesRefused(Exception):
    """The files cannot be written; the text says why, and what to do."""


def add_to(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to those of ``rollcall``."""
    parser = subparsers.add_parser(
        "files",
        help="write the files for systemd, containers, proxies and monitoring into a folder",
        description="Write files that come with the package into a folder. deploy: systemd units, cron and logrotate "
        "files, the nightly check, compose, Kubernetes, proxies, dashboards and alert rules. Files in the folder that "
        "have other content stay, and the command writes nothing, unless you give --force.",
    )
    parser.add_argument("what", choices=[DEPLOY], help="the set of files")
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write them; the command makes the folder")
    parser.add_argument("--force", action="store_true", help="replace files that have other content")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the files, say where they are, and return the exit code."""
    folder: Path = options.folder
    try:
        count = write_files(files_folder(), folder, replace=options.force)
    except (FilesRefused, OSError) as error:
        reason = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else reason_of(error)
        sys.stderr.write(f"rollcall files: {printable(reason)}\n")
        return 2
    sys.stdout.write(gettext("%(count)s files are in %(folder)s", count=count, folder=printable(str(folder))) + "\n")
    return 0


def files_folder() -> Path:
    """Return the folder with the files: inside the installed package, or next to the code of a checkout.

    Raises:
        FilesRefused: the package was installed without it.
    """
    [code] = app.__path__
    for parent in (Path(code), Path(code).parent):
        if (parent / DEPLOY / "rollcall.service").is_file():
            return parent / DEPLOY
    raise FilesRefused(
        phrase(
            "this installation has no folder deploy at %(code)s: install rollcall-registry again",
            code=code,
        )
    )


def write_files(source: Path, folder: Path, *, replace: bool) -> int:
    """Copy all files of ``source`` into ``folder``, scripts with the right to run; return how many files there are.

    Raises:
        FilesRefused: a file with other content exists and ``replace`` is False, or a folder is in the way.
        OSError: the folder cannot be written.
    """
    names = sorted(
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and LEFT_OUT.isdisjoint(path.relative_to(source).parts)
    )
    if folder.exists() and not folder.is_dir():
        raise FilesRefused(phrase("%(folder)s is not a folder: name another one", folder=folder))
    wrong = [name for name in names if (folder / name).exists() and not (folder / name).is_file()]
    if wrong:
        raise FilesRefused(phrase("%(path)s is not a file: name another folder", path=folder / wrong[0]))
    other = [name for name in names if _differs(source / name, folder / name)]
    if other and not replace:
        more = phrase(" and %(count)s more", count=len(other) - NAMED_MAX) if len(other) > NAMED_MAX else ""
        raise FilesRefused(
            phrase(
                "%(folder)s has other content in %(names)s%(more)s: name another folder, or give --force to "
                "replace these files",
                folder=folder,
                names=", ".join(map(str, other[:NAMED_MAX])),
                more=more,
            )
        )
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target)
        target.chmod(0o755 if target.suffix == ".sh" else 0o644)
    return len(names)


def _differs(ours: Path, theirs: Path) -> bool:
    return theirs.is_file() and theirs.read_bytes() != ours.read_bytes()
