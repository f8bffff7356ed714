"""The build backend: setuptools, and for a wheel a copy of the tree in which all code has one import name.

The repository has the packages ``app`` and ``distro`` at its top. Both names belong to others once they are installed:
``distro`` is a distribution of PyPI, and many projects name their own package ``app``. A wheel therefore installs
``app`` as ``rollcall_registry`` and ``distro`` as ``rollcall_registry.distro``; each import of the copied sources is
rewritten on its line, so that tracebacks keep their line numbers. An editable installation uses the tree as it is.
See docs/decisions/0070-one-import-name.md.
"""

import ast
import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

PACKAGE = "rollcall_registry"
RENAMED = {"app": PACKAGE, "distro": f"{PACKAGE}.distro"}
FILES = ("deploy", "scripts/distro_check.py")
"""Installed beside the code, in the folder ``deploy``, for ``rollcall files``."""
README = "scripts/package/README.md"
"""The description on PyPI: README.md has links into the repository, which lead nowhere there."""
_MODULE = re.compile(r"(?:app|distro)(?:\.\w+)+(?::\w+)?")
_ENTRY = re.compile(r"^(\s+[\w-]+ = )(app|distro)\b(?=\.[\w.]+(?::\w+)?$)", re.MULTILINE)
_NO_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", "secrets")


class NotRenamed(Exception):
    """A source names a module in a form that cannot be rewritten; the text says where, and what to write."""


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel from a renamed copy of the current folder, and return the wheel's file name."""
    target = Path(wheel_directory).resolve()
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(Path.cwd(), Path(folder) / "tree")
        with contextlib.chdir(tree):
            return str(build_meta.build_wheel(str(target), dict(config_settings or {}), metadata_directory))


def make_tree(source: Path, tree: Path) -> Path:
    """Copy what a wheel is made of from ``source`` to ``tree``, all code under one import name; return ``tree``.

    Raises:
        NotRenamed: a source cannot be rewritten.
    """
    for name, renamed in RENAMED.items():
        shutil.copytree(source / name, tree.joinpath(*renamed.split(".")), ignore=_NO_CODE)
    for name in FILES:
        found, target = source / name, tree / PACKAGE / "deploy"
        if found.is_dir():
            shutil.copytree(found, target, ignore=_NO_CODE, dirs_exist_ok=True)
        else:
            shutil.copy2(found, target)
    for path in (tree / PACKAGE).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        path.write_text(renamed_source(text, str(path.relative_to(tree))), encoding="utf-8")
    config = (source / "setup.cfg").read_text(encoding="utf-8")
    (tree / "setup.cfg").write_text(renamed_entry_points(config), encoding="utf-8")
    (tree / README).parent.mkdir(parents=True)
    for name in ("pyproject.toml", "LICENSE", README):
        shutil.copy2(source / name, tree / name)
    return tree


def renamed_entry_points(config: str) -> str:
    """Return the text of setup.cfg with the modules of its entry points under the installed name."""
    return _ENTRY.sub(lambda found: found[1] + RENAMED[found[2]], config)


def renamed_source(text: str, where: str) -> str:
    """Return a module's text with every import of ours under the installed name, each on the line where it was.

    Raises:
        NotRenamed: an import, or a text that names a module, has a form that cannot be rewritten. ``where`` is in it.
    """
    lines = text.splitlines(keepends=True)
    for line, written, replacement in _replacements(ast.parse(text, where), where):
        if written not in lines[line - 1]:
            raise NotRenamed(f"{where}:{line}: write this import on one line, as `{written}`")
        lines[line - 1] = lines[line - 1].replace(written, replacement, 1)
    return "".join(lines)


def _replacements(tree: ast.Module, where: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, text and replacement of each import of ours."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if (top := module.partition(".")[0]) in RENAMED:
                yield node.lineno, f"from {module} import", f"from {RENAMED[top]}{module[len(top) :]} import"
            case ast.Import(names=names):
                for one in names:
                    if one.name.partition(".")[0] not in RENAMED:
                        continue
                    if one.name not in RENAMED or one.asname or len(names) > 1:
                        raise NotRenamed(f"{where}:{node.lineno}: write `from ... import ...` for {one.name}")
                    yield node.lineno, f"import {one.name}", _whole(one.name)
            case ast.Constant(value=str(text)) if _MODULE.fullmatch(text):
                raise NotRenamed(
                    f"{where}:{node.lineno}: {text!r} names a module by text, which has another name where it is "
                    "installed: take the name from an imported package, as `app.__name__`"
                )


def _whole(name: str) -> str:
    """Return the import that binds a whole package to the name that it has in the repository."""
    parent, _, last = RENAMED[name].rpartition(".")
    return f"from {parent} import {last}" if parent else f"import {last} as {name}"
