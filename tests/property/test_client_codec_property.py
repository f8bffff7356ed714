"""A client's state comes back from its JSON as it was, and whatever else comes is read or refused by a field's name."""

import json
from itertools import repeat
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.naming.clients.client_codec import decode_client, encode_client, own_fields
from app.naming.clients.client_model import RESERVED_METADATA, ClientState
from app.naming.clients.own_clients import instance_of
from app.naming.model.contents import client_content
from app.naming.model.model import Publication
from app.naming.registry.operations import RegisterInstance, Shared
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Version

names = st.text("aB3-_.", min_size=1, max_size=5)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
printable = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=8)
keys = st.tuples(st.sampled_from(["public", "dev"]), st.builds("{}@@{}".format, names, names))
weights = st.one_of(st.sampled_from([0.0, 0.01, 1.0, 2.0, 10_000.0]), st.floats(0.01, 10_000))
commands = st.builds(
    RegisterInstance,
    service=st.just(""),
    ip=st.sampled_from(["10.0.0.1", "10.0.0.2", "2001:db8::1", "host.example"]),
    port=st.integers(0, 65_535),
    cluster=st.text("aB3-", min_size=1, max_size=4),
    weight=weights,
    healthy=st.booleans(),
    enabled=st.booleans(),
    metadata=st.dictionaries(texts | st.sampled_from(RESERVED_METADATA), texts | st.none(), max_size=3),
    instance_id=printable,
)
versions = st.just(NO_VERSION) | st.builds(
    Version, st.integers(1, 9), st.integers(0, 1 << 40), st.sampled_from(["m:1~1", "10.0.0.1:8848~a1"])
)


def client_fields(state: ClientState) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_client(state))
    return found


@st.composite
def states(draw: st.DrawFn) -> ClientState:
    """As ``Clients`` makes them: each instance from a command."""
    publications = {}
    for key in draw(st.lists(keys, unique=True, max_size=4)):
        batch = draw(st.booleans())
        size = (0, 4) if batch else (1, 1)
        asked = draw(st.lists(commands, min_size=size[0], max_size=size[1]))
        made = [instance_of(one._replace(namespace=key[0], service=key[1]), repeat(7), Shared()) for one in asked]
        at_ms, seen = draw(st.integers(0, (1 << 53) - 1)), draw(versions)
        publications[key] = Publication({one.key: one for one in made}, batch, at_ms, seen)
    revision = draw(st.integers(-(1 << 31), (1 << 31) - 1))
    return ClientState(draw(st.sampled_from(["1_10.0.0.1_1", "10.0.0.1:80#true"])), revision, publications)


@settings(deadline=None)
@given(states())
def test_round_trip(state: ClientState) -> None:
    body, own = json.loads(encode_client(state)), json.loads(json.dumps(own_fields(state)))
    decoded = decode_client(body, own)
    assert decoded == state
    contents = [client_content("k", one.publications.items()) for one in (decoded, state)]
    assert contents[0] == contents[1]
    undated = decode_client(body)
    assert {key: (one.instances, one.batch) for key, one in undated.publications.items()} == {
        key: (one.instances, one.batch) for key, one in state.publications.items()
    }
    assert client_fields(undated) == client_fields(state)


odd = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 1 << 33) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(states(), st.data())
def test_whatever_stands_in_one_place_is_read_or_refused(state: ClientState, data: st.DataObject) -> None:
    body = {"client": json.loads(encode_client(state)), "own": own_fields(state)}
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for place in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, place))
            collect(value[place])

    collect(body)
    parent, place = data.draw(st.sampled_from(places))
    if isinstance(parent, dict) and data.draw(st.booleans()):
        del parent[place]
    else:
        parent[place] = data.draw(odd)
    try:
        again = decode_client(body.get("client"), body.get("own"))
    except CodecError:
        return
    assert decode_client(client_fields(again), own_fields(again) if again.dated else None) == again
