"""The deadline of the call that a thread executes, asked for when a durable write has its turn (R13)."""

import pytest

from app.members.membership import check_call_deadline, executing_until
from app.naming.model.nacos_errors import Unavailable
from app.naming.records.records import Records
from app.tools.simulation.member.disk import MemoryDisk


def test_a_write_that_is_over_changes_nothing() -> None:
    disk = MemoryDisk()
    records = Records("a:1~1", disk, lambda: 1, lambda: 1, lambda _record: None, check_call_deadline)
    over = False
    with executing_until(lambda: over):
        assert records.put_all({"a": lambda _old: {"x": 1}}) == ["a"]
        over = True
        with pytest.raises(Unavailable, match="too late"):
            records.put_all({"a": lambda _old: {"x": 2}})
    assert records.value("a") == disk.records["a"].value == {"x": 1}
    assert records.put_all({"a": lambda _old: {"x": 3}}) == ["a"], "outside of the call nothing is late"
