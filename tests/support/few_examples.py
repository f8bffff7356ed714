"""A plugin of pytest, for runs in which each test runs often: hypothesis tries few examples, the same each time."""

import pytest
from hypothesis import Phase, settings


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Set few examples for all tests that name no number of their own, and none for making a failure smaller."""
    settings.register_profile(
        "few",
        parent=settings.get_profile("untimed"),
        max_examples=30,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("few")
