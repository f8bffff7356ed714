"""The plugin for pytest: fixtures with a registry. Every run of pytest where Rollcall is installed loads this module.

So it imports only pytest until a test asks for a fixture.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest


@pytest.fixture(scope="session")
def rollcall_settings() -> Mapping[str, Any]:
    """The settings of the other fixtures' registries, by name; a project that needs any defines this fixture again."""
    return {}


@pytest.fixture
def rollcall(rollcall_settings: Mapping[str, Any]) -> Iterator[Any]:
    """A registry of this test's own, empty, on a free port: ``testing.Registry``."""
    from app.testing import Registry

    with Registry(settings=rollcall_settings) as registry:
        yield registry


@pytest.fixture
def rollcall_cluster(rollcall_settings: Mapping[str, Any]) -> Iterator[Any]:
    """Three members of this test's own that replicate with each other: ``testing.Cluster``."""
    from app.testing import Cluster

    with Cluster(3, settings=rollcall_settings) as cluster:
        yield cluster
