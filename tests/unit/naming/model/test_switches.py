"""Switches as values: what one entry changes, and that JSON brings them back. The frontend's tests have every entry."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import (
    ENTRIES,
    FIXED,
    CheckParams,
    SwitchDomain,
    from_json,
    is_served,
    single_precision,
    update,
)

FLOAT_MAX = 3.4028234663852886e38
"""The largest of Java's floats."""

params = st.builds(CheckParams, st.integers(3_000, 9_000), st.integers(500, 2_000), st.floats(0, 1))
domains = st.builds(
    SwitchDomain,
    masters=st.none() | st.lists(st.text(max_size=3), max_size=3).map(tuple),
    ad_weight_map=st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=2),
    check_times=st.integers(1, 9),
    distro_threshold=st.floats(0.01, 9),
    push_enabled=st.booleans(),
    http_health_params=params,
    limited_url_map=st.dictionaries(st.text(min_size=1, max_size=3), st.integers(200, 599), max_size=2),
    overridden_server_status=st.sampled_from([None, "", "UP", "READ_ONLY"]),
)


@given(domains)
def test_json_brings_them_back(domain: SwitchDomain) -> None:
    assert from_json(domain.to_json(), SwitchDomain()) == domain


@given(domains)
def test_what_is_absent_stays(domain: SwitchDomain) -> None:
    assert from_json({}, domain) == domain
    assert from_json({"unknown": 1} | dict.fromkeys(FIXED, "x"), domain) == domain


@given(domains, st.sampled_from(sorted(ENTRIES)), st.text(max_size=8))
def test_any_text_changes_a_switch_or_is_refused(domain: SwitchDomain, entry: str, value: str) -> None:
    try:
        changed = update(domain, entry, value)
    except InvalidParam:
        return
    assert from_json(changed.to_json(), SwitchDomain()) == changed, "what is set can be kept"


def test_the_json_may_be_changed() -> None:
    domain = SwitchDomain(limited_url_map={"/a": 200})
    domain.to_json()["limitedUrlMap"]["/b"] = 200
    assert domain.limited_url_map == {"/a": 200}


def test_an_unknown_entry_changes_nothing() -> None:
    domain = SwitchDomain(check_times=5)
    assert update(domain, "zzz", "1") is domain


@given(st.floats(-FLOAT_MAX, FLOAT_MAX))
def test_single_precision_is_the_nearest_float(number: float) -> None:
    found = single_precision(number)
    assert struct.pack("<f", found) == struct.pack("<f", number)
    assert single_precision(found) == found


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0.3, "0.3"),
        (1 / 3, "0.33333334"),
        (1_000.00006, "1000.00006"),
        (16_777_217, "16777216.0"),
        (FLOAT_MAX, "3.4028235e+38"),
        (-0.0, "-0.0"),
    ],
)
def test_single_precision_in_the_fewest_digits(number: float, shown: str) -> None:
    assert repr(single_precision(number)) == shown


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e40])
def test_what_is_no_single_precision(number: float) -> None:
    with pytest.raises(OverflowError):
        single_precision(number)


@pytest.mark.parametrize(
    ("status", "reads", "writes"),
    [("UP", True, True), ("READ_ONLY", True, False), ("WRITE_ONLY", False, True), ("DOWN", False, False)],
)
def test_a_status_answers_reads_or_writes(status: str, reads: bool, writes: bool) -> None:
    assert (is_served(status, is_read=True), is_served(status, is_read=False)) == (reads, writes)
