"""The JSON of a client's publications, both ways, and what is refused of it."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.naming.clients import client_codec
from app.naming.clients.client_codec import (
    ClientState,
    decode_client,
    decode_snapshot,
    decode_verify,
    encode_client,
    encode_snapshot,
    encode_verify,
    own_fields,
)
from app.naming.clients.client_model import WITHDRAWALS_SENT_MAX, ClientBounds
from app.naming.model.keys import INSTANCE_ID_CHARS_MAX, WALL_MS_END
from app.naming.model.model import Instance, Publication
from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, WRITER_CHARS_MAX, Version

ID = "1700000000000_10.1.2.3_51234"
KEY = ("public", "DEFAULT_GROUP@@orders")
DOCUMENTED = {
    "clientId": ID,
    "attributes": {"clientAttributes": {"revision": 2}},
    "namespaces": ["public"],
    "groupNames": ["DEFAULT_GROUP"],
    "serviceNames": ["orders"],
    "instancePublishInfos": [
        {
            "ip": "10.1.2.3",
            "port": 8080,
            "healthy": True,
            "cluster": "DEFAULT",
            "extendDatum": {"zone": "a", "publishInstanceWeight": 2.0},
            "metadataId": "10.1.2.3:8080:DEFAULT",
        }
    ],
    "batchInstanceData": {},
}
"""The shape of Nacos 2.2.3, as its reader and writer have it."""


def client_fields(state: ClientState) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode_client(state))
    return found


def instance(port: int = 8080, **more: Any) -> Instance:
    fields: dict[str, Any] = {
        "service_name": KEY[1],
        "metadata": {"zone": "a"},
        "app": "DEFAULT",
        "instance_id": f"10.1.2.3#{port}#DEFAULT#{KEY[1]}",
    }
    return Instance("10.1.2.3", port, **{**fields, **more})


def publication(*instances: Instance, batch: bool = False, at_ms: int = 0, seen: Version = NO_VERSION) -> Publication:
    return Publication({one.key: one for one in instances}, batch, at_ms, seen)


def test_the_documented_shape_is_read() -> None:
    state = decode_client(DOCUMENTED, seen_ms=7)
    assert state == ClientState(ID, 2, {KEY: publication(instance(weight=2.0), at_ms=7)}, dated=False)


def test_the_documented_shape_is_written() -> None:
    state = ClientState(ID, 2, {KEY: publication(instance(weight=2.0, instance_id=None))})
    assert client_fields(state) == DOCUMENTED
    assert b'"publishInstanceWeight":2.0' in encode_client(state), "Java reads no whole number there"


def test_what_is_usual_is_not_written() -> None:
    state = ClientState(ID, 1, {KEY: publication(instance(metadata={}, instance_id=None))})
    [info] = client_fields(state)["instancePublishInfos"]
    assert info["extendDatum"] == {}


def test_id_weight_and_state_stand_among_the_metadata_and_are_taken_out_again() -> None:
    one = instance(weight=0.5, enabled=False, instance_id="mine", healthy=False)
    state = ClientState(ID, 1, {KEY: publication(one)}, dated=False)
    [info] = client_fields(state)["instancePublishInfos"]
    assert info["extendDatum"] == {
        "zone": "a",
        "customInstanceId": "mine",
        "publishInstanceWeight": 0.5,
        "publishInstanceEnable": False,
    }
    assert decode_client(json.loads(encode_client(state))) == state


def test_a_batch_has_its_own_part() -> None:
    state = ClientState(ID, 3, {KEY: publication(instance(1), instance(2), batch=True)}, dated=False)
    fields = client_fields(state)
    assert (fields["namespaces"], fields["instancePublishInfos"]) == ([], [])
    batches = fields["batchInstanceData"]
    [info] = batches.pop("batchInstancePublishInfos")
    assert batches == {"namespaces": ["public"], "groupNames": ["DEFAULT_GROUP"], "serviceNames": ["orders"]}
    infos = info.pop("instancePublishInfos")
    assert info == {"port": 0, "healthy": False, "extendDatum": {}, "metadataId": "null:0:null"}
    assert [one["port"] for one in infos] == [1, 2]
    assert decode_client(json.loads(encode_client(state))) == state


def test_our_own_kind_is_told_when_each_service_was_registered() -> None:
    other = ("dev", "G@@batch")
    version = Version(1, 4, "m:1~1")
    publications = {
        other: publication(batch=True, at_ms=5),
        KEY: publication(instance(), at_ms=9, seen=version),
    }
    state = ClientState(ID, 3, publications)
    assert own_fields(state) == {"at": [9, 5], "seen": ["1.4.m:1~1", ""]}
    assert decode_client(client_fields(state), own_fields(state)) == state
    withdrawn = replace(state, withdrawn={("public", "G@@gone"): (frozenset({"b", "a"}), 7)})
    assert own_fields(withdrawn) == own_fields(state) | {"withdrawn": [["public", "G@@gone", 7, ["a", "b"]]]}
    assert decode_client(client_fields(withdrawn), own_fields(withdrawn)) == withdrawn
    ended = replace(state, ended_from="10.0.0.1:8848~f00d")
    assert own_fields(ended) == own_fields(state) | {"ended": "10.0.0.1:8848~f00d"}
    assert decode_client(client_fields(ended), own_fields(ended)) == ended


def test_no_namespace_is_the_public_one_and_no_cluster_the_usual_one() -> None:
    fields = copy.deepcopy(DOCUMENTED)
    fields["namespaces"] = [""]
    fields["instancePublishInfos"][0]["cluster"] = " "  # type: ignore[index]
    assert decode_client(fields) == decode_client(DOCUMENTED)
    del fields["instancePublishInfos"][0]["cluster"]  # type: ignore[attr-defined]
    assert decode_client(fields) == decode_client(DOCUMENTED)


def test_older_peers_tell_no_revision_and_no_batches() -> None:
    fields: dict[str, Any] = copy.deepcopy(DOCUMENTED)
    fields["attributes"] = {"clientAttributes": {}}
    del fields["batchInstanceData"]
    assert decode_client(fields).revision == 0


def test_values_that_are_no_texts_become_some() -> None:
    fields: dict[str, Any] = copy.deepcopy(DOCUMENTED)
    data = {"a": 1, "b": True, "c": None, "d": 1.5, "e": {"f": []}, "publishInstanceWeight": 20_000}
    fields["instancePublishInfos"][0]["extendDatum"] = data
    [one] = decode_client(fields).publications[KEY].instances.values()
    assert one.metadata == {"a": "1", "b": "true", "d": "1.5", "e": '{"f":[]}'}
    assert one.weight == 10_000.0, "every member brings a received weight into range"


def info_of(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields["instancePublishInfos"][0]
    return found


Change = Callable[[dict[str, Any]], Any]
TOO_LONG = INSTANCE_ID_CHARS_MAX + 1
BAD_BATCH = {
    "batchInstanceData": {
        "namespaces": ["public"], "groupNames": ["G"], "serviceNames": ["a"], "batchInstancePublishInfos": [7],
    }
}  # fmt: skip
WRONG: list[tuple[str, Change]] = [
    ("clientId", lambda fields: fields.pop("clientId")),
    ("clientId", lambda fields: fields.update(clientId="")),
    ("clientId", lambda fields: fields.update(clientId="a\nb")),
    ("clientId", lambda fields: fields.update(clientId="x" * 600)),
    ("clientId", lambda fields: fields.update(clientId="10.0.0.1:80#false")),
    ("attributes", lambda fields: fields.pop("attributes")),
    ("clientAttributes", lambda fields: fields.update(attributes={})),
    ("revision", lambda fields: fields.update(attributes={"clientAttributes": {"revision": 1 << 31}})),
    ("revision", lambda fields: fields.update(attributes={"clientAttributes": {"revision": True}})),
    ("revision", lambda fields: fields.update(attributes={"clientAttributes": {"revision": "1"}})),
    ("namespaces", lambda fields: fields.update(namespaces=None)),
    ("'namespaces' has an entry that is not text", lambda fields: fields.update(namespaces=[1])),
    ("groupNames", lambda fields: fields.update(groupNames=[])),
    ("'groupNames' has an entry that is not text", lambda fields: fields.update(groupNames=[None])),
    ("serviceNames", lambda fields: fields.pop("serviceNames")),
    ("'serviceNames' has an entry that is not text", lambda fields: fields.update(serviceNames=[{}])),
    ("serviceName", lambda fields: fields.update(serviceNames=[""])),
    ("'serviceName'", lambda fields: fields.update(serviceNames=["a\nb"])),
    ("namespaceId", lambda fields: fields.update(namespaces=["a##b"])),
    ("instancePublishInfos", lambda fields: fields.pop("instancePublishInfos")),
    ("instancePublishInfos", lambda fields: fields.update(instancePublishInfos=[])),
    ("instancePublishInfos", lambda fields: fields.update(instancePublishInfos=[7])),
    ("ip", lambda fields: info_of(fields).pop("ip")),
    ("ip", lambda fields: info_of(fields).update(ip="")),
    ("port", lambda fields: info_of(fields).update(port="80")),
    ("port", lambda fields: info_of(fields).update(port=65_536)),
    ("healthy", lambda fields: info_of(fields).update(healthy=1)),
    ("cluster", lambda fields: info_of(fields).update(cluster=3)),
    ("cluster name", lambda fields: info_of(fields).update(cluster="a_b")),
    ("extendDatum", lambda fields: info_of(fields).update(extendDatum=None)),
    ("publishInstanceWeight", lambda fields: info_of(fields)["extendDatum"].update(publishInstanceWeight="2")),
    ("publishInstanceWeight", lambda fields: info_of(fields)["extendDatum"].update(publishInstanceWeight=True)),
    ("publishInstanceEnable", lambda fields: info_of(fields)["extendDatum"].update(publishInstanceEnable="false")),
    ("customInstanceId", lambda fields: info_of(fields)["extendDatum"].update(customInstanceId=4)),
    ("metadata", lambda fields: info_of(fields)["extendDatum"].update(a="x" * 65_536)),
    ("batchInstanceData", lambda fields: fields.update(batchInstanceData=[])),
    ("groupNames", lambda fields: fields.update(batchInstanceData={"serviceNames": ["a"], "namespaces": ["b"]})),
    ("^an entry of field 'batchInstancePublishInfos' is not an object", lambda fields: fields.update(BAD_BATCH)),
    ("customInstanceId", lambda fields: info_of(fields)["extendDatum"].update(customInstanceId="i" * TOO_LONG)),
]


@pytest.mark.parametrize(("name", "change"), WRONG, ids=[f"{name} {place}" for place, (name, _) in enumerate(WRONG)])
def test_what_is_wrong_is_refused_by_its_name(name: str, change: Change) -> None:
    fields: dict[str, Any] = copy.deepcopy(DOCUMENTED)
    change(fields)
    with pytest.raises(CodecError, match=name):
        decode_client(fields)


def test_an_id_and_a_date_may_be_as_large_as_their_bounds() -> None:
    fields: dict[str, Any] = copy.deepcopy(DOCUMENTED)
    longest = "i" * INSTANCE_ID_CHARS_MAX
    info_of(fields)["extendDatum"].update(customInstanceId=longest)
    found = decode_client(fields, {"at": [WALL_MS_END - 1], "seen": [""]}).publications[KEY]
    assert found.at_ms == WALL_MS_END - 1
    assert [one.instance_id for one in found.instances.values()] == [longest]
    with pytest.raises(CodecError, match="field 'at'"):
        decode_client(fields, {"at": [WALL_MS_END], "seen": [""]})


@pytest.mark.parametrize("own", [[], {}, {"at": [1]}, {"at": ["1"], "seen": [""]}, {"at": [1], "seen": ["x"]}], ids=str)
def test_what_is_wrong_in_our_own_part_is_refused(own: object) -> None:
    with pytest.raises(CodecError):
        decode_client(DOCUMENTED, own)


@pytest.mark.parametrize("run", [7, ["m:1~1"], "r" * 201], ids=["number", "list", "long"])
def test_a_run_that_is_none_is_refused(run: object) -> None:
    with pytest.raises(CodecError, match="field 'ended'"):
        decode_client(DOCUMENTED, {"at": [1], "seen": [""], "ended": run})


def test_the_longest_run() -> None:
    run = "r" * WRITER_CHARS_MAX
    assert decode_client(DOCUMENTED, {"at": [1], "seen": [""], "ended": run}).ended_from == run


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_codec, "BOUNDS", ClientBounds(1, 1, 2, 3))
    three = ClientState(ID, 1, {KEY: publication(instance(1), instance(2), instance(3), batch=True)})
    with pytest.raises(CodecError, match="at most 2"):
        decode_client(client_fields(three))
    two = publication(instance(1), instance(2), batch=True)
    with pytest.raises(CodecError, match="over 1 services"):
        decode_client(client_fields(ClientState(ID, 1, {KEY: two, ("a", KEY[1]): two})))
    with pytest.raises(CodecError, match="over 1 clients"):
        decode_snapshot(encode_snapshot([three, three]))
    monkeypatch.setattr(client_codec, "BOUNDS", ClientBounds(1, 2, 2, 3))
    with pytest.raises(CodecError, match="at most 3"):
        decode_client(client_fields(ClientState(ID, 1, {KEY: two, ("a", KEY[1]): two})))


def test_a_client_may_publish_as_many_as_its_bounds_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_codec, "BOUNDS", ClientBounds(1, 2, 2, 3))
    two = publication(instance(1), instance(2), batch=True)
    state = ClientState(ID, 1, {KEY: two, ("a", KEY[1]): publication(instance(1))}, dated=False)
    assert decode_client(client_fields(state)) == state
    assert decode_snapshot(encode_snapshot([state])) == ([state], [])


def test_a_group_ends_at_the_first_mark() -> None:
    key = ("public", "G@@a@@b")
    one = instance(service_name=key[1], instance_id="mine")
    fields = client_fields(ClientState(ID, 1, {key: publication(one)}))
    assert (fields["groupNames"], fields["serviceNames"]) == (["G"], ["a@@b"])
    assert list(decode_client(fields).publications) == [key]


def test_clients_of_a_snapshot_are_dated_by_its_reader() -> None:
    [state], _ = decode_snapshot(encode_snapshot([ClientState(ID, 2, {KEY: publication(instance())})]), seen_ms=7)
    assert state.publications[KEY].at_ms == 7


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda: decode_client([]), "the client's data is not an object"),
        (lambda: decode_client(DOCUMENTED, []), "the own part of the client's data is not an object"),
        (lambda: decode_snapshot(b"x"), "the content is not JSON"),
        (lambda: decode_snapshot(b"[]"), "the snapshot is not an object"),
        (lambda: decode_snapshot(b"{}"), "field 'clientSyncDataList' of the snapshot is not a list"),
        (lambda: decode_verify(b"x"), "the content is not JSON"),
        (lambda: decode_verify(b"[]"), "the verify data is not an object"),
    ],
)
def test_a_refusal_says_what_is_wrong_of_what(read: Callable[[], object], says: str) -> None:
    with pytest.raises(CodecError, match=f"^{says}"):
        read()


def test_a_snapshot_and_what_is_wrong_in_one() -> None:
    assert encode_snapshot([]) == b'{"clientSyncDataList":[]}'
    assert decode_snapshot(encode_snapshot([])) == ([], [])
    one = ClientState(ID, 2, {KEY: publication(instance())}, dated=False)
    body = json.loads(encode_snapshot([one]))
    body["clientSyncDataList"].insert(0, {"clientId": ID})
    states, failed = decode_snapshot(json.dumps(body).encode())
    assert states == [one], "a bad one fails alone"
    assert failed == ["field 'serviceNames' is not a list"]
    for broken in (b"", b"[]", b"{}", b'{"clientSyncDataList":{}}'):
        with pytest.raises(CodecError):
            decode_snapshot(broken)


def test_verify_data() -> None:
    assert encode_verify(ID, 2) == b'{"clientId":"1700000000000_10.1.2.3_51234","revision":2}'
    assert decode_verify(encode_verify(ID, 2)) == (ID, 2)
    assert decode_verify(b'{"clientId":"10.0.0.1:80#true"}') == ("10.0.0.1:80#true", 0)
    for broken in (b"x", b"[]", b"{}", b'{"clientId":"a","revision":2147483648}', b'{"clientId":"a","revision":null}'):
        with pytest.raises(CodecError):
            decode_verify(broken)


@pytest.mark.parametrize(
    "withdrawn",
    [
        7,
        [7],
        [["public", "s", 1]],
        [["public", "s", True, []]],
        [["public", "s", -1, []]],
        [["public", "s", WALL_MS_END, []]],
        [["public", 1, 1, []]],
        [["public", "s", 1, [1]]],
        [["public", "s", 1, ["a"] * (client_codec.BOUNDS.instances_per_batch_max + 1)]],
        [["public", "s", 1, []]] * (WITHDRAWALS_SENT_MAX + 1),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_withdrawal_is_refused(withdrawn: Any) -> None:
    with pytest.raises(CodecError, match="withdrawn"):
        decode_client(DOCUMENTED, {"at": [1], "seen": [""], "withdrawn": withdrawn})
