"""The plugin for pytest: fixtures with a registry. Every run of pytest where Rollcall is installed loads this module.

So it imports nothing but pytest until a fixture is asked for, and stands beside the package that it brings: a project
whose own top-level package is named ``app``, too, goes on as if this were not here.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HELPER = "app.testing"


def load_helper() -> ModuleType:
    """Import what makes registries; the test that asked for it fails with the reason if that cannot be."""
    try:
        found = importlib.import_module(HELPER)
    except ImportError as error:
        pytest.fail(f"{_clash()} ({error})", pytrace=False)
    own = Path(__file__).resolve().parents[1]
    if own != Path(found.__file__ or "").resolve().parents[1]:
        pytest.fail(_clash(), pytrace=False)
    return found


def _clash() -> str:
    try:
        at = ", ".join(importlib.import_module(HELPER.partition(".")[0]).__path__)
    except (ImportError, AttributeError):
        at = "not a package of Rollcall's"
    return (
        f"Rollcall's fixtures need its package `app`, and here `app` is {at}. The two cannot be imported by one "
        "process: start a node as a process of its own (`rollcall serve`), and turn this plugin off: -p no:rollcall"
    )


@pytest.fixture(scope="session")
def rollcall_settings() -> Mapping[str, Any]:
    """The settings of the other fixtures' registries, by name; a project that needs any defines this fixture anew."""
    return {}


@pytest.fixture
def rollcall(rollcall_settings: Mapping[str, Any]) -> Iterator[Any]:
    """A registry of this test's own, empty, on a free port: ``app.testing.Registry``."""
    with load_helper().Registry(settings=rollcall_settings) as registry:
        yield registry


@pytest.fixture
def rollcall_cluster(rollcall_settings: Mapping[str, Any]) -> Iterator[Any]:
    """Three members of this test's own that replicate with each other: ``app.testing.Cluster``."""
    with load_helper().Cluster(3, settings=rollcall_settings) as cluster:
        yield cluster
