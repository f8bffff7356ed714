"""Digests of buckets: equal for rows in which members agree, other for each value that the check compares."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from app.naming.model.keys import dump_bucket
from app.rows.rows import STALE_SLACK_MS, client_row, record_row
from app.tools.audit.format import digests
from app.tools.audit.format.digests import Bucket, DigestWriter, bucket_in
from app.tools.audit.format.manifest import (
    Digests,
    DumpState,
    Manifest,
    ManifestError,
    MemberDump,
    decode_manifest,
    encode_manifest,
)
from tests.support.dumps import ADDRESSES, SERVICE, digests_of, instance, service

SETTINGS = {"protect_threshold": 0.0, "selector": "{}", "clusters": "{}", "metadata": {}}
OWN = service(instances=2) | SETTINGS
CLIENT = client_row("1_10.0.0.9_1", 4, ADDRESSES[0], 2)
ROWS = [record_row("switches", {"a": 1}, "1.2.a"), CLIENT, OWN, instance(1), instance(2)]


def with_row(number: int, **values: Any) -> list[Mapping[str, Any]]:
    return [row | values if place == number else row for place, row in enumerate(ROWS)]


def whole() -> Digests:
    found = digests_of(ROWS)
    assert found is not None
    return found


def odd(rows: list[Mapping[str, Any]]) -> set[int]:
    found = digests_of(rows)
    assert found is not None
    buckets = {int(number): bucket_in(text) for number, text in found.buckets.items()}
    return {number for number, bucket in buckets.items() if bucket is not None and bucket.is_odd}


def test_order_and_what_is_not_compared_change_nothing() -> None:
    shuffled = [row | {"beat_age_ms": 5, "silent_ms": 1, "client": "http"} for row in ROWS]
    random.Random(3).shuffle(shuffled)
    assert digests_of(shuffled) == digests_of(ROWS)
    counts = [bucket_in(text) for text in whole().buckets.values()]
    assert sum(one.rows for one in counts if one) == len(ROWS)
    assert (sum(one.services for one in counts if one), sum(one.instances for one in counts if one)) == (1, 2)


@pytest.mark.parametrize(
    ("number", "values"),
    [
        (0, {"value": "{}"}),
        (0, {"version": "1.3.a"}),
        (0, {"name": "namespace dev"}),
        (1, {"revision": 5}),
        (1, {"owner": ADDRESSES[1]}),
        (1, {"name": "1_10.0.0.9_2"}),
        (2, {"version": "1.2.a"}),
        (2, {"owner": ADDRESSES[1]}),
        (2, {"protect_threshold": 0.5}),
        (2, {"protect_threshold": None}),
        (2, {"selector": '{"type":"label"}'}),
        (2, {"clusters": '{"A":{}}'}),
        (2, {"metadata": {"a": "1"}}),
        (3, {"cluster": "B"}),
        (3, {"ip": "10.1.0.9"}),
        (3, {"port": 8081}),
        (3, {"ephemeral": False}),
        (3, {"healthy": False}),
        (3, {"enabled": False}),
        (3, {"weight": 1.5}),
        (3, {"metadata": {"a": None}}),
        (3, {"version": "1.9.a"}),
    ],
)
def test_each_compared_value_changes_its_bucket(number: int, values: dict[str, Any]) -> None:
    found = digests_of(with_row(number, **values))
    assert found is not None
    assert found.buckets != whole().buckets


def test_a_fault_of_one_member_alone_makes_the_bucket_odd() -> None:
    own = dump_bucket("public", SERVICE)
    assert odd(ROWS) == set()
    silent = {"delete_timeout_ms": 30_000, "beat_age_ms": 30_001 + STALE_SLACK_MS}
    assert odd(with_row(3, **silent)) == {own}
    assert odd(with_row(3, **silent, silent_ms=5)) == set(), "only what the health check counts"
    assert odd(with_row(3, layer="view")) == {own}
    assert odd([*ROWS[:2], OWN | {"instances": 3}, *ROWS[3:], instance(2, ephemeral=False)]) == {own}
    other = "GRAY@@orders"
    elsewhere = [service(other, instances=1), instance(2, service=other)]
    assert odd([*ROWS, *elsewhere]) == {own}, "one address in two groups"
    assert odd([*ROWS, service(other, instances=1), instance(9, service=other)]) == set()


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:-1],
        [*ROWS, instance(3)],
        with_row(2, instances=None),
        with_row(2, instances=3),
        [*ROWS[:2], *ROWS[3:]],
    ],
)
def test_rows_that_do_not_fit_each_other_make_the_bucket_odd(rows: list[Mapping[str, Any]]) -> None:
    assert odd(rows) == {dump_bucket("public", SERVICE)}


@pytest.mark.parametrize(
    "rows",
    [
        with_row(3, weight=None),
        with_row(3, kind="surprise"),
        with_row(0, value=None),
        with_row(1, name=None),
        with_row(1, namespace=None),
        with_row(2, owner=["a"]),
        with_row(2, instances="many"),
        [*ROWS, {}],
    ],
)
def test_a_line_that_is_no_row_leaves_no_digests(rows: list[Mapping[str, Any]]) -> None:
    assert digests_of(rows) is None


def test_rows_without_a_place_in_the_files_have_no_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = DigestWriter()
    for row in ROWS:
        writer.add(row)
    assert writer.result() is not None
    assert writer.result(corrupt=1) is None
    monkeypatch.setattr(digests, "OWNERS_MAX", 0)
    assert writer.result() is None


def test_owners_have_their_buckets() -> None:
    found = digests_of(ROWS)
    assert found is not None
    assert found.owners == {ADDRESSES[0]: f"{1 << dump_bucket('public', SERVICE):x}"}


def test_texts_of_buckets() -> None:
    for bucket in (Bucket(1, 2, 3, 4, is_odd=False), Bucket((1 << 64) - 1, 0, 0, 0, is_odd=True)):
        assert bucket_in(bucket.text) == bucket
    for text in ("", "1 2 3 4", "00000000000000001 1 1 1", "0000000000000001 1 1 1 even", "0000000000000001 1 1"):
        assert bucket_in(text) is None


def test_manifests_keep_them_and_refuse_too_many() -> None:
    dump = MemberDump(ADDRESSES[0], DumpState.DUMPED, digests=digests_of(ROWS))
    made = Manifest("r", "2026-11-21", "20261121T031500.000Z", 1, 2, 15.0, [dump])
    assert decode_manifest(encode_manifest(made)) == made
    body = encode_manifest(made).replace(
        b'"buckets": {', b'"buckets": {' + b",".join(b'"%d": ""' % n for n in range(1_025)) + b","
    )
    with pytest.raises(ManifestError, match=r"field 'members\.0\.digests\.buckets'"):
        decode_manifest(body)
