"""Packages that share an environment with ours: PyPI's `distro`, its users, and a project whose package is `app`."""

from pathlib import Path

OURS_BESIDE = """
import sys
from rollcall_registry.testing import Registry

with Registry() as registry:
    registry.register("orders", "10.0.0.1", 8080)
    [instance] = registry.instances("orders")
    assert instance.address == "10.0.0.1:8080"
assert not {"app", "distro"} & {name for name in sys.modules if "rollcall" in str(sys.modules[name])}
"""
"""A program that uses our package; a program of the other package may stand before and after it."""

DISTRO = "import distro\nassert distro.id() and distro.__file__.endswith('site-packages/distro/__init__.py')\n"
APP = "import app\nassert app.ANSWER == 42\n"


def make_app_project(folder: Path) -> Path:
    """Write a project that can be installed, with a top-level package ``app`` of its own; return its folder."""
    project = folder / "their-project"
    (project / "app").mkdir(parents=True)
    (project / "app" / "__init__.py").write_text("ANSWER = 42\n")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "their-project"\nversion = "1.0"\n[tool.setuptools]\npackages = ["app"]\n'
    )
    return project
