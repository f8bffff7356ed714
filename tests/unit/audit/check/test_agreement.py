"""Which buckets a check reads, by the digests of the manifests alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from app.naming.model.keys import dump_bucket
from app.tools.audit.check.agreement import SAMPLED, Agreement, agreement, is_full_night
from app.tools.audit.check.evidence import weigh
from app.tools.audit.format.layout import Night, read_night
from app.tools.audit.format.manifest import MemberDump
from app.tools.audit.format.part_format import PartFormat
from tests.support.dumps import ADDRESSES, Rows, instance, service, write_dump

ONE, TWO, THREE = ADDRESSES
NAMES = [f"DEFAULT_GROUP@@s{number}" for number in range(40)]
BUCKETS = [dump_bucket("public", name) for name in NAMES]
assert len(set(BUCKETS)) == len(NAMES)


def rows(**changes: Mapping[str, Any]) -> Rows:
    """Return services of one instance each; ``changes`` by a service's number, as ``s3``."""
    values = [changes.get(f"s{number}", {}) for number in range(len(NAMES))]
    return [
        row
        for name, change in zip(NAMES, values, strict=True)
        for row in (
            service(name, change.get("owner", ONE), instances=1),
            instance(1, service=name, **{key: value for key, value in change.items() if key != "owner"}),
        )
    ]


def night(folder: Path, first: Mapping[str, Rows | str], second: Mapping[str, Rows | str] | None = None) -> Night:
    write_dump(folder, first, second, part_format=PartFormat.PARQUET, digests=True)
    return read_night(str(folder))


def agreed(found: Night) -> Agreement | None:
    return agreement(found, weigh(found, {}))


def test_equal_members_have_a_sample_read_and_no_more(tmp_path: Path) -> None:
    found = agreed(night(tmp_path, {ONE: rows(), TWO: rows(), THREE: rows()}))
    assert found is not None
    assert (found.differing, len(found.sample)) == (frozenset(), SAMPLED)
    assert (found.chosen.rows, found.chosen.services) == (SAMPLED * 2 * 3 * 2, SAMPLED)
    assert (found.agreed.rows, found.agreed.services, found.agreed.instances) == (40 * 2 * 3 * 2, 40, 40)
    assert found.rest.rows + found.chosen.rows == found.agreed.rows
    counted = {"services": 3, "instances": 2, "service_rows": 5, "instance_rows": 4, "rows": 7}
    assert found.completed(counted) == {
        "services": 3 + 32,
        "instances": 2 + 32,
        "service_rows": 5 + 32 * 6,
        "instance_rows": 4 + 32 * 6,
        "rows": 7 + 2 * 32 * 6,
    }


def test_what_differs_moves_or_is_odd_is_read(tmp_path: Path) -> None:
    """One member departs, all change between the rounds, all have it silent, all name an owner that is not dumped."""
    silent = {"beat_age_ms": 90_000, "delete_timeout_ms": 30_000}
    all_have = {"s2": silent, "s3": {"owner": "10.0.0.9:8848"}}
    first = {ONE: rows(**all_have), TWO: rows(s0={"weight": 2.0}, **all_have)}
    second = {ONE: rows(s1={"port": 9}, **all_have), TWO: rows(s0={"weight": 2.0}, s1={"port": 9}, **all_have)}
    found = agreed(night(tmp_path, first, second))
    assert found is not None
    assert found.differing == set(BUCKETS[:4])
    assert found.chosen.rows == 4 * (4 + SAMPLED) * 2
    assert not found.sample & found.differing
    proof = {"rows": found.chosen.rows, "suspect_sampled": 0}
    proof |= {"service_rows": found.chosen.service_rows, "instance_rows": found.chosen.instance_rows}
    assert found.is_proven(proof)
    for name in proof:
        assert not found.is_proven(proof | {name: proof[name] + 1})


def test_too_much_that_differs_has_all_rows_read(tmp_path: Path) -> None:
    most = {f"s{number}": {"weight": 2.0} for number in range(21)}
    assert agreed(night(tmp_path, {ONE: rows(), TWO: rows(**most)})) is None


def test_a_member_that_holds_nothing_has_all_rows_read(tmp_path: Path) -> None:
    assert agreed(night(tmp_path, {ONE: rows(), TWO: rows(), THREE: []})) is None


def tampered(found: Night, change: Mapping[str, Any] | None) -> Night:
    """Return the night with other digests of one member in the second round; None for none."""

    def one(dump: MemberDump) -> MemberDump:
        if dump.address != TWO or dump.digests is None:
            return dump
        return replace(dump, digests=None if change is None else replace(dump.digests, **change))

    last = found.rounds[1]
    manifest = replace(last.manifest, members=[one(dump) for dump in last.manifest.members])
    return replace(found, rounds=[found.rounds[0], replace(last, manifest=manifest)])


def test_digests_that_do_not_suffice(tmp_path: Path) -> None:
    found = night(tmp_path, {ONE: rows(), TWO: rows()})
    [_, dump] = found.rounds[1].manifest.members
    assert dump.digests is not None
    buckets = dump.digests.buckets
    first, text = next(iter(buckets.items()))
    for change in (
        None,
        {"kind": "sha256/7"},
        {"buckets": {number: text for number, text in buckets.items() if number != first}},
        {"buckets": buckets | {first: text.replace(" 2 1 1", " 3 1 1")}},
        {"buckets": buckets | {first: 7}},
        {"buckets": buckets | {first: "surprise"}},
        {"buckets": buckets | {"1024": text}},
        {"buckets": buckets | {"x": text}},
    ):
        assert agreed(tampered(found, change)) is None
    odd_owners = agreed(tampered(found, {"owners": {"10.0.0.9:8848": 7}}))
    assert odd_owners is None, "all buckets are read"
    assert agreed(tampered(found, {})) is not None


def test_json_has_all_rows_read(tmp_path: Path) -> None:
    write_dump(tmp_path, {ONE: rows(), TWO: rows()}, digests=True)
    assert agreed(read_night(str(tmp_path))) is None


def test_the_day_on_which_all_rows_are_read() -> None:
    assert [night for night in range(16, 23) if is_full_night(f"2026-11-{night}")] == [22]
