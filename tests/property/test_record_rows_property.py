"""Rows of the records' file, of whatever content: each is a record, or is set aside with a reason."""

import json
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from app.machine.storage.record_file import UnreadRecord, _record_or_why, _row
from app.naming.records.record_keys import (
    SWITCHES_KEY,
    link_key,
    namespace_key,
    override_key,
    permission_key,
    persistent_key,
    role_key,
    service_meta_key,
    user_key,
)
from app.replication.record_type import RecordCodec
from distro.model.types import Datum

FIELDS = (
    *("ip", "port", "clusterName", "weight", "healthy", "enabled", "marked", "metadata", "app", "instanceId"),
    *("name", "description", "password", "generation", "setMs", "protectThreshold", "selector", "clusters"),
    *("type", "expression", "healthChecker", "checkPort", "useInstancePort", "path", "headers", "user", "cmd"),
    *("expectedResponseCode", "masters", "adWeightMap", "limitedUrlMap", "httpHealthParams", "max", "min", "factor"),
    *("overriddenServerStatus", "checkTimes", "distroThreshold", "incrementalList", "pushEnabled"),
)
KEYS = (
    SWITCHES_KEY,
    namespace_key("dev"),
    link_key("dc-b"),
    persistent_key("public", "g@@s", "10.0.0.1:80:unknown:DEFAULT"),
    persistent_key("public", "g@@%a#$/", "10.0.0.1:80:unknown:DEFAULT"),
    override_key("public", "g@@%a#$/", "10.0.0.1:80:unknown:DEFAULT"),
    service_meta_key("public", "g@@s"),
    user_key("bob"),
    role_key("admins", "bob"),
    permission_key("admins", "rw", "a:*:*"),
)
known = st.sampled_from(["10.0.0.1", "DEFAULT", "HTTP", "MYSQL", "label"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | known
names = st.sampled_from(FIELDS) | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6), max_leaves=20
)
columns = st.none() | st.integers() | st.text() | st.binary() | st.floats()
rows = st.tuples(
    st.sampled_from(KEYS) | columns,
    st.sampled_from(["1.1.a:1~1"]) | columns,
    st.sampled_from(["1.1.a:1~1"]) | columns,
    columns | values.map(lambda value: json.dumps(value, allow_nan=True).encode("utf-8", "surrogatepass")),
    st.integers(0, 2**53) | columns,
    st.none() | st.integers(0, 2**53) | columns,
)


@given(rows)
def test_a_row_is_a_record_that_members_take_or_is_set_aside(row: tuple[Any, ...]) -> None:
    read = _record_or_why(row, 0)
    if isinstance(read, UnreadRecord):
        assert read.why
        return
    assert _row(read, 0)[0] == row[0]
    codec = RecordCodec()
    body = orjson.loads(codec.encode(Datum(read.key, read.version, read), 1_000, True))
    assert codec.decode(read.key, body, 1_000).version == read.version
