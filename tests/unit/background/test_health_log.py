"""A lost rack is no line in the log; at level DEBUG some, not ten thousand."""

import pytest

from app.naming.model.events import HealthChanged, HealthChecked
from app.node.wiring import LINES_MAX, log_health, log_health_check


@pytest.mark.parametrize(
    ("changes", "last"), [(LINES_MAX, "instance i9 of s is removed"), (10, "1 more"), (500, "491 more")]
)
def test_a_service_has_ten_lines_a_round_at_most(changes: int, last: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "app.node.wiring")
    for number in range(1, changes + 1):
        log_health(HealthChanged("s", f"i{number}", "removed", number))
    log_health_check(HealthChecked("s", changes))
    assert len(caplog.messages) == min(changes, LINES_MAX + 1)
    assert caplog.messages[-1].startswith(last)
    assert {one.levelname for one in caplog.records} == {"DEBUG"}
