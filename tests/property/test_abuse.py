"""Nonsense through the whole frontend, with the real domain behind it: refused, and nothing stored."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from werkzeug.test import EnvironBuilder, run_wsgi_app

from app.http.api.call import ROUTES
from app.http.factory import create_app
from app.naming.model.switches import SwitchDomain
from app.naming.records.durable_service import Namespace
from app.naming.registry.operations import RegisterInstance
from tests.support.abuse_corpus import (
    BAD_SERVICE,
    BODIES,
    CONTEXT_PATH,
    HEADERS,
    TEXTS,
    Request,
    base_of,
    complaint,
    corpus,
    is_always_wrong,
    parameters_of,
)
from tests.support.fake_node import FakeNode
from tests.support.thorough import examples

SAMPLE = 3_000
LOOPBACK = {"REMOTE_ADDR": "127.0.0.1"}
TABLE = sorted({(route.method, route.path) for route in ROUTES if is_always_wrong(route.path)})


def filled_node() -> FakeNode:
    node = FakeNode()
    node.naming.register(RegisterInstance("DEFAULT_GROUP@@witness", "10.1.1.1", 1))
    node.durable.register(RegisterInstance("DEFAULT_GROUP@@kept", "10.1.1.2", 2, ephemeral=False))
    node.durable.create_namespace(Namespace("kept", "kept", ""))
    return node


def stored(node: FakeNode) -> dict[str, Any]:
    """All that is kept in memory and on disk."""
    registry = node.registry
    return {
        "records": dict(node.disk.records),
        "services": {
            one.key: (one.version, one.hidden, sorted(one.stored), sorted(one.tombstones), sorted(one.persistent))
            for one in registry.table.services()
        },
        "names": registry.table.names("public"),
        "switches": node.durable.switches.to_json(),
    }


@pytest.fixture(scope="module")
def abused() -> Iterator[tuple[FakeNode, Flask, dict[str, Any]]]:
    """One node for all requests: what any of them stored, the end shows."""
    node = filled_node()
    before = stored(node)
    yield node, create_app(node), before
    assert stored(node) == before
    assert node.durable.switches == SwitchDomain()


def send(app: Flask, request: Request) -> tuple[int, bytes]:
    """Send it as WSGI hands it over: bytes as Latin-1 text, the path unescaped."""
    path, _, query = request.target.partition("?")
    builder = EnvironBuilder(path="/", method="GET", data=request.payload)
    environ = builder.get_environ()
    builder.close()
    environ |= LOOPBACK | {"REQUEST_METHOD": request.method, "QUERY_STRING": query, "RAW_URI": request.target}
    environ["PATH_INFO"] = path.encode().decode("latin-1")
    environ["CONTENT_LENGTH"] = str(len(request.payload))
    for name, value in request.fields:
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    # Not by a test client, which reads some headers for itself and fails of them.
    body, status, _ = run_wsgi_app(app, environ, buffered=True)
    return int(status.split()[0]), b"".join(body)


def test_a_part_of_the_corpus(abused: tuple[FakeNode, Flask, dict[str, Any]]) -> None:
    node, app, before = abused
    requests = random.Random(7).sample(list(corpus(TABLE)), SAMPLE)
    for request in requests:
        status, body = send(app, request)
        assert complaint(status, body) is None, f"{request}: {status} {body[:500]!r}"
    assert stored(node) == before


text = st.one_of(
    st.sampled_from(TEXTS),
    st.binary(max_size=200),
    st.text(max_size=50).map(lambda one: one.encode("utf-8", "replace")),
)
field = st.one_of(st.sampled_from(HEADERS), st.tuples(st.sampled_from(["User-Agent", "Cookie", "X-A"]), st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=100)))  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request to a route with any values in any of its parameters, but such that it must be refused."""
    method, path = draw(st.sampled_from(TABLE))
    names = st.sampled_from([name for name in parameters_of(path) if name not in _REFUSING])
    drawn = draw(st.lists(st.tuples(names, text), max_size=6))
    base = base_of(method, path, "")
    pairs = [
        (name.encode(), value)
        for name, value in (base | dict(drawn) | {k: base[k] for k in base if k in _REFUSING}).items()
    ]
    draw(st.randoms(use_true_random=False)).shuffle(pairs)
    cut = draw(st.integers(0, len(pairs)))
    body = draw(st.one_of(st.none(), st.sampled_from(BODIES), st.binary(max_size=300))) if "distro" in path else None
    headers = tuple(draw(st.lists(field, max_size=3)))
    if method in ("GET", "HEAD"):
        return Request(method, path, tuple(pairs), body=body, headers=headers)
    return Request(method, path, tuple(pairs[:cut]), tuple(pairs[cut:]), body, headers)


_REFUSING = {
    "serviceName",
    "dom",
    "entry",
    "value",
    "customNamespaceId",
    "namespace",
    "namespaceId",
    "encoding",
    "beat",
}
"""Parameters by which a request is refused whatever the others are; ``encoding`` could make other names of them."""


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests())
def test_anything(abused: tuple[FakeNode, Flask, dict[str, Any]], request: Request) -> None:
    node, app, before = abused
    status, body = send(app, request)
    assert complaint(status, body) is None, f"{status} {body[:500]!r}"
    assert stored(node) == before


def test_the_corpus_is_large_and_says_what_it_is() -> None:
    found = list(corpus(TABLE))
    assert len(found) > 20_000
    assert {(one.method, one.path) for one in found} >= set(TABLE)
    assert all(one.target.startswith(CONTEXT_PATH) for one in found[:100])
    assert BAD_SERVICE.startswith("DEFAULT_GROUP@@")


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (0, b""), (200, b'{"a":"Traceback (most recent call last)"}'), (400, b"java.lang.X")],
)
def test_what_is_complained_of(status: int, body: bytes) -> None:
    assert complaint(status, body)
    assert complaint(400, b"Param 'ip' is required.") is None
