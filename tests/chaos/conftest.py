"""Scenarios come last: when fewer other tests run beside them, as they check what members do within seconds."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("chaos") is not None)
