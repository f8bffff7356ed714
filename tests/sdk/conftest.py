"""Client libraries in environments of their own; one that cannot be installed here is skipped, with the reason."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.sdk.environments import GRPC_INSTALLERS, INSTALLERS, Environment, NotInstallable

GetEnvironment = Callable[[str], Environment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sdk)


Environments = dict[str, Environment | NotInstallable]
"""Every library, or why it is not there, by name."""


@pytest.fixture(scope="session")
def environments() -> Environments:
    """The libraries that speak HTTP."""
    return _install(INSTALLERS)


@pytest.fixture(scope="session")
def grpc_environments() -> Environments:
    """Those that speak gRPC."""
    return _install(GRPC_INSTALLERS)


def _install(installers: Mapping[str, Callable[[], Environment]]) -> Environments:
    found: Environments = {}
    for name, install in installers.items():
        try:
            found[name] = install()
        except NotInstallable as error:
            found[name] = error
    return found
