"""Docstrings and comments name scripts and modules that there are."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (".ci", "app", "deploy", "distro", "docs", "scripts", "tests")
NAMED = re.compile(r"(?<![\w.-])\w+\.(?:lua|py)\b")
EXAMPLES = {"app.py", "job.py", "module.py", "quick_start.py", "test_it.py"}
"""Made by a test, or standing for any name."""


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".lua", ".py") and not {"node_modules", "__pycache__"} & set(path.parts):
                yield path


def test_each_file_that_a_source_names_is_there() -> None:
    found = list(sources())
    known = {path.name for path in found} | EXAMPLES
    named = [(path, name) for path in found for name in NAMED.findall(path.read_text(encoding="utf-8"))]
    assert len(named) > 20
    lost = [f"{path.relative_to(ROOT)}: {name}" for path, name in named if name not in known]
    assert not lost, "\n".join(lost)
