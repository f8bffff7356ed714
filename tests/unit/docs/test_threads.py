"""The table of threads in docs/threads.md and the names of threads and pools in the code are the same."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BY_OTHERS = {"main thread", "grpc's own"}
"""Rows of threads that no code of ours starts."""


def names_in_code() -> Iterator[str]:
    """Yield the name of each thread and pool that a node starts; a part that is not fixed is written as ``*``."""
    for top in ("app", "distro"):
        for path in (ROOT / top).rglob("*.py"):
            if {"audit", "command"} & set(path.parts):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and (text := _name_of(node)) is not None:
                    yield text


def _name_of(call: ast.Call) -> str | None:
    kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if kind in ("PeerWorker", "CallPool"):
        return _text(call.args[0])
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if kind == "Thread" and not isinstance(given["name"], ast.Name):
        return _text(given["name"])
    if kind == "ThreadPoolExecutor":
        return _text(given.get("thread_name_prefix") or call.args[1])
    return None


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in node.values)
    return None


def names_in_docs() -> set[str]:
    """The names in the first column of the table, without those of threads that others start."""
    text = (ROOT / "docs" / "threads.md").read_text().partition("## Threads")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")][1:]
    return {name for row in rows if row.strip() not in BY_OTHERS for name in re.findall(r"`([^`]+)`", row)}


def test_the_table_of_threads_has_those_that_the_code_starts() -> None:
    found, told = set(names_in_code()), names_in_docs()
    assert len(found) > 5
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".+")) for name in found}
    assert not [name for name, pattern in patterns.items() if not any(pattern.fullmatch(one) for one in told)]
    assert not [one for one in told if not any(pattern.fullmatch(one) for pattern in patterns.values())]
