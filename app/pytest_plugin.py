"""The plugin for pytest: fixtures with a registry. Every run of pytest where Rollcall is installed loads this module.

So it imports nothing but pytest until a fixture is asked for, and stands beside the package that it brings: a project
whose own top-level package is named ``app``, too, goes on as if this were not here.
"""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HELPER = "app.testing"


def load_helper() -> ModuleType:
    """Import what makes registries; the test that asked for it fails with the reason if that cannot be."""
    package = HELPER.partition(".")[0]
    own, spec = Path(__file__).resolve().parents[1] / package, importlib.util.find_spec(package)
    places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or "unknown"])]
    if own not in [Path(one).resolve() for one in places]:
        pytest.fail(
            f"Rollcall's fixtures need its package `{package}` at {own}, and here `{package}` is "
            f"{', '.join(places) or 'nowhere'}. One process cannot import both: start a node as a process of its own "
            "(`rollcall serve`), and turn this plugin off: -p no:rollcall",
            pytrace=False,
        )
    return importlib.import_module(HELPER)


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
