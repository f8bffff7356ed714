"""The copy of the tree that a wheel is built from: one import name for all code, on the same lines."""

import ast
from pathlib import Path

import pytest

from scripts.package.wheel_backend import NotRenamed, make_tree, renamed_entry_points, renamed_source

WHERE = "module.py"
ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    ("written", "renamed"),
    [
        ("import app\n", "import rollcall_registry as app\n"),
        ("import distro\n", "from rollcall_registry import distro\n"),
        ("from app import wsgi\n", "from rollcall_registry import wsgi\n"),
        ("from app.http.api import call\n", "from rollcall_registry.http.api import call\n"),
        (
            "from distro.model import (\n    types,\n)\n",
            "from rollcall_registry.distro.model import (\n    types,\n)\n",
        ),
        ("def f():\n    from app.a import b\n", "def f():\n    from rollcall_registry.a import b\n"),
        ("from application import a\nimport distribution\n", "from application import a\nimport distribution\n"),
        ("x = 'app'\ny = 'from app.a import b'\n", "x = 'app'\ny = 'from app.a import b'\n"),
    ],
)
def test_imports_of_ours_get_the_installed_name(written: str, renamed: str) -> None:
    assert renamed_source(written, WHERE) == renamed


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("import app.http\n", ":1: write `from ... import ...` for app.http"),
        ("import app as ours\n", ":1: write `from ... import ...` for app"),
        ("import app, os\n", ":1: write `from ... import ...` for app"),
        ("from  app.a import b\n", ":1: write this import on one line, as `from app.a import`"),
        ("x = 1\ny = 'app.wsgi:app'\n", ":2: 'app.wsgi:app' names a module by text"),
        ("y = 'distro.engine.Engine'\n", ":1: 'distro.engine.Engine' names a module by text"),
    ],
)
def test_a_name_that_would_be_another_where_it_is_installed_stops_the_build(written: str, why: str) -> None:
    with pytest.raises(NotRenamed) as raised:
        renamed_source(written, WHERE)
    assert str(raised.value).startswith(WHERE + why)


def test_entry_points_lead_to_the_installed_modules() -> None:
    config = (
        "    rollcall = app.tools.cli:main\n    rollcall = distro.plugin\n    app = 1\n    other = application.main\n"
    )
    assert renamed_entry_points(config) == (
        "    rollcall = rollcall_registry.tools.cli:main\n    rollcall = rollcall_registry.distro.plugin\n"
        "    app = 1\n    other = application.main\n"
    )


def test_nothing_of_the_tree_keeps_its_name(tmp_path: Path) -> None:
    tree = make_tree(ROOT, tmp_path / "tree")
    assert {path.name for path in tree.iterdir() if path.is_dir()} == {"rollcall_registry", "scripts"}
    modules = list((tree / "rollcall_registry").rglob("*.py"))
    assert len(modules) > 300
    left = []
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            left += [(path, name) for name in names if name.partition(".")[0] in ("app", "distro")]
    assert not left
    assert (tree / "rollcall_registry" / "deploy" / "nightly.sh").stat().st_mode & 0o111
    assert not list(tree.rglob("__pycache__"))
