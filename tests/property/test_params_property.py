"""Whatever a client sends makes a command or a refusal, and what was taken can be answered as JSON."""

import gzip
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.factory import create_app
from app.http.input.forms import Parameters
from app.http.input.json_text import parse_metadata
from app.http.input.params import parse_beat, parse_deregister, parse_detail, parse_list, parse_patch, parse_register
from app.naming.model.meta import ServiceMeta
from app.naming.model.model import Instance, ServiceView
from app.naming.model.nacos_errors import NacosError
from app.naming.wire.service_info import ListAnswers, Variant, echo_of
from distro.model.types import NO_VERSION
from tests.support.fake_node import FakeNode

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=XX"
# fmt: off
NAMES = [
    "serviceName", "dom", "groupName", "namespaceId", "ip", "port", "clusterName", "cluster", "weight", "enabled",
    "enable", "healthy", "ephemeral", "metadata", "app", "beat", "encoding", "clusters", "healthyOnly", "isCheck",
    "env", "udpPort",
]
ODD = [
    "", " ", "0", "80", "-1", "65536", "1e999", "NaN", "Infinity", "true", "False", "null", "{}", "[]", "@@", "a@@b",
    "\0", "GBK", "UTF-8", "utf-16", "10.0.0.1", "1..2", '{"a":1}', '{"ip":"1.1.1.1","port":80}', '{"a":"\\ud800"}',
    "a=1,b=2",
]
# fmt: on
PARSERS: list[Callable[[Parameters], Any]] = [
    parse_register,
    parse_deregister,
    parse_patch,
    parse_detail,
    parse_list,
    parse_beat,
]

unicode = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
values = st.one_of(st.sampled_from(ODD), unicode, st.integers().map(str), st.floats().map(str))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | unicode,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(unicode, inner, max_size=3),
    max_leaves=8,
)
beat_fields = ["ip", "port", "cluster", "weight", "metadata", "ephemeral", "scheduled"]
beats = st.dictionaries(st.sampled_from(beat_fields), json_values).map(json.dumps)
parameters = st.dictionaries(st.sampled_from(NAMES), st.one_of(values, beats))


def parsed_or_refused(parser: Callable[[Parameters], Any], found: Parameters) -> Any:
    try:
        return parser(found)
    except NacosError as refusal:
        return refusal.text.encode()


@pytest.mark.parametrize("parser", PARSERS)
@given(given_values=parameters)
def test_a_command_or_a_refusal(parser: Callable[[Parameters], Any], given_values: dict[str, str]) -> None:
    parsed_or_refused(parser, Parameters({"serviceName": "a", "ip": "10.0.0.1", "port": "80"} | given_values))


@given(query=st.binary(max_size=200), body=st.binary(max_size=200), kind=st.sampled_from([FORM, MULTIPART, "", "x"]))
def test_bytes_of_any_kind(query: bytes, body: bytes, kind: str) -> None:
    for parser in PARSERS:
        parsed_or_refused(lambda _, parser=parser: parser(Parameters.of(query, kind, body, "POST")), Parameters({}))


@given(
    pairs=st.dictionaries(unicode.filter(lambda name: name not in ("", "encoding")), unicode),
    how=st.sampled_from([quote, quote_plus]),
)
def test_escaped_values_arrive(pairs: dict[str, str], how: Callable[..., str]) -> None:
    raw = urlencode(pairs, quote_via=how).encode()
    assert dict(Parameters.of(raw, "", b"", "GET").items()) == pairs
    assert dict(Parameters.of(b"", FORM, raw, "PUT").items()) == pairs


@given(st.dictionaries(unicode, unicode))
def test_metadata_survives_as_json(metadata: dict[str, str]) -> None:
    assert parse_metadata(json.dumps(metadata)) == metadata
    assert parse_metadata(json.dumps(metadata, ensure_ascii=False)) == metadata


@given(given_values=parameters, method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE", "GET"]))
def test_what_was_taken_can_be_answered(given_values: dict[str, str], method: str) -> None:
    client = create_app(FakeNode()).test_client()
    query = {"serviceName": "a", "ip": "10.0.0.1", "port": "80"} | given_values
    named = {name: value for name, value in query.items() if name in ("serviceName", "groupName", "namespaceId", "dom")}
    for path in ("instance", "instance/beat", "service"):
        answer = client.open(f"/nacos/v1/ns/{path}", method=method, query_string=query)
        assert answer.status_code in (200, 400, 404, 501), answer.data
    for path in ("instance/list", "service/list?pageNo=1&pageSize=9", "service", "instance"):
        answer = client.get(f"/nacos/v1/ns/{path}", query_string=None if "?" in path else query | named)
        assert answer.status_code in (200, 400, 404), answer.data
        if answer.status_code == 200:
            json.loads(answer.data)


metadata_maps = st.none() | st.dictionaries(unicode, st.none() | unicode, max_size=3)
instances = st.builds(
    Instance,
    ip=unicode,
    port=st.integers(0, 65_535),
    cluster_name=st.sampled_from(["DEFAULT", "c1", ""]),
    service_name=st.sampled_from(["G@@a", "", "a"]),
    weight=st.floats(0, 10_000),
    healthy=st.booleans(),
    enabled=st.booleans(),
    metadata=metadata_maps,
    instance_id=st.none() | unicode,
)
variants = st.builds(
    Variant,
    clusters=st.sampled_from(["", "DEFAULT", "c1", "c1,DEFAULT", ",", "nope"]),
    healthy_only=st.booleans(),
    is_check=st.just(False),
    java_agent=st.booleans(),
    cache_ms=st.just(3000),
)


@given(st.lists(instances, max_size=6), st.floats(0, 1), metadata_maps, variants, unicode, st.integers(0, 2**53))
def test_service_info_is_json_with_the_promised_hosts(
    members: list[Instance],
    threshold: float,
    metadata: dict[str, str | None] | None,
    variant: Variant,
    env: str,
    now_ms: int,
) -> None:
    view = ServiceView("ns", "G@@a", 1, NO_VERSION, tuple(members), (), ServiceMeta(threshold, metadata or {}))
    answer = ListAnswers().get(view, variant)
    echo = echo_of(variant.clusters, env)
    first = answer.plain(now_ms, echo)
    assert gzip.decompress(answer.zipped(now_ms, echo)) == first
    found = json.loads(first)
    asked = {name for name in variant.clusters.split(",") if name}
    chosen = [one for one in members if not asked or one.cluster_name in asked]
    shown = [host["ip"] for host in found["hosts"]]
    assert found["lastRefTime"] == now_ms
    assert (found["clusters"], found["env"]) == (variant.clusters, env)
    if not variant.healthy_only or not any(one.healthy for one in chosen):
        assert sorted(shown) == sorted(one.ip for one in chosen if one.enabled)
    assert {one.ip for one in chosen if one.healthy and one.enabled} <= set(shown)
    assert [host["healthy"] for host in found["hosts"]] == sorted(host["healthy"] for host in found["hosts"])
