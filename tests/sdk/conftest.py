"""Client libraries in environments of their own; one that cannot be installed here is skipped, with the reason."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sdk.environments import INSTALLERS, Environment, NotInstallable

GetEnvironment = Callable[[str], Environment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sdk)


@pytest.fixture(scope="session")
def environments() -> dict[str, Environment | NotInstallable]:
    """Every library, or why it is not there, by name."""
    found: dict[str, Environment | NotInstallable] = {}
    for name, install in INSTALLERS.items():
        try:
            found[name] = install()
        except NotInstallable as error:
            found[name] = error
    return found
