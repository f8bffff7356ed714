"""Thousands of durable records change their member at once: by few writes to the disk, and no member is slow by it."""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Mapping

from app.machine.storage.record_file import RecordFile
from app.naming.records.record import Record
from app.naming.records.record_keys import namespace_key
from distro.members.mapper import DistroMapper
from distro.model.types import Version
from tests.cluster.conftest import StartCluster
from tests.support.processes import NO_VERIFY, Member, eventually

RECORDS = 3_600
RECORDS_PER_WRITE_MIN = 20
"""On average. A batch of claims has up to a thousand, one of what a peer sends a hundred, and the last ones fewer."""
FORMER = Version(1, 1, "127.0.0.1:1~1")
"""By a member that is gone, as after an end of all: whoever starts first has to take over what is its own."""


def write_records(member: Member) -> None:
    """Leave in the member's folder what a former run would."""
    member.data.mkdir(parents=True)
    file = RecordFile(member.data)
    file.open()
    keys = [namespace_key(f"space-{number}") for number in range(RECORDS)]
    value = {"name": "a namespace", "description": ""}
    file.write([Record(key, FORMER, FORMER, value, 1_700_000_000_000) for key in keys], 0)
    file.close()


def writers_of(member: Member) -> Counter[str]:
    """How many records on the member's disk each address wrote."""
    with contextlib.closing(sqlite3.connect(member.data / "records.sqlite3")) as connection:
        rows = connection.execute("SELECT version FROM record").fetchall()
    return Counter(Version.from_text(version).writer.partition("~")[0] for (version,) in rows)


def owned_by(members: list[Member]) -> Counter[str]:
    """How many records each of these is responsible for."""
    mapper = DistroMapper.over(members[0].address, [member.address for member in members])
    return Counter(mapper.map_srv(namespace_key(f"space-{number}")) for number in range(RECORDS))


def test_thousands_of_records_are_taken_over_by_few_writes_to_the_disk(make_cluster: StartCluster) -> None:
    cluster = make_cluster(settings=NO_VERIFY)
    for member in cluster:
        write_records(member)
    cluster.start()
    for member in cluster:
        eventually(lambda member=member: writers_of(member) == owned_by(cluster.members) or _wrong(member))  # type: ignore[misc]
    before = {member: member.client.metrics() for member in cluster}
    for member in cluster:
        assert before[member]["claims"] >= owned_by(cluster.members)[member.address]
        assert_written_together(before[member])

    *left, gone = cluster.members
    gone.kill_all()
    for member in left:
        eventually(lambda member=member: writers_of(member) == owned_by(left) or _wrong(member))  # type: ignore[misc]
    for member in left:
        after = member.client.metrics()
        moved = {name: after[name] - before[member][name] for name in ("claims", "receivedKeys", "recordCommits")}
        assert moved["claims"] >= owned_by(left)[member.address] - owned_by(cluster.members)[member.address]
        assert_written_together(moved)
        assert after["overruns"] == 0, "it was not slow by its own work"


def assert_written_together(counters: Mapping[str, int]) -> None:
    changed = counters["claims"] + counters["receivedKeys"]
    assert 1 <= counters["recordCommits"] <= changed / RECORDS_PER_WRITE_MIN, counters


def _wrong(member: Member) -> bool:
    raise AssertionError(f"{member}: {writers_of(member)}")
