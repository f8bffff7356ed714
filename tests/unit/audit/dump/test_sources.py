"""One member's rows, of each kind of member, against servers that answer as those do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any

import orjson
import pytest

from app.tools.audit.client.access import Access
from app.tools.audit.client.http_client import CallError, MemberClient, Patience
from app.tools.audit.dump.sources import take
from app.tools.audit.format.manifest import DumpState, MemberDump, Seen
from distro.members.mapper import DistroMapper
from tests.support.fake_nacos import CLOCK_MS, FakeNacos, instance
from tests.support.tiny_server import Given, Received, tiny_server

ORDERS = ("public", "DEFAULT_GROUP@@orders")
NOTHING_SET = {"metadata": {}, "protect_threshold": 0.0, "selector": '{"type":"none"}', "clusters": "{}"}
NDJSON = {"Content-Type": "application/x-ndjson"}
HEADER = {
    "kind": "member",
    "format": 1,
    "address": "10.0.0.1:8848",
    "version": "0.1.0",
    "taken_ms": 1,
    "state": "UP",
    "members": [{"address": "10.0.0.1:8848", "state": "UP"}, {"address": "10.0.0.2:8848", "state": "DOWN"}],
}
SERVICE = {"kind": "service", "namespace": "public", "service": "DEFAULT_GROUP@@orders"}
INSTANCE = {**SERVICE, "kind": "instance", "ip": "10.0.0.9", "port": 80}
END = {"kind": "end", "services": 1, "instances": 1}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a member of Nacos looked at again after hundredths of a second."""
    monkeypatch.setattr("app.tools.audit.dump.nacos_datums.LOOK_AGAIN_S", 0.02)


@contextmanager
def client_of(address: str, **fields: Any) -> Iterator[MemberClient]:
    client = MemberClient(address, Access(timeout_s=60.0, **fields), Patience(0, Event()))
    try:
        yield client
    finally:
        client.close()


def taken_of(fake: Any, namespaces: tuple[str, ...] = (), **fields: Any) -> tuple[MemberDump, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    with tiny_server(fake) as server, client_of(server.address, **fields) as client:
        taken = take(client, namespaces, lambda line, row: rows.append(_same(line, row)))
    assert taken.services == sum(row["kind"] == "service" for row in rows)
    assert taken.instances == sum(row["kind"] == "instance" for row in rows)
    return taken, rows


def _same(line: bytes, row: Mapping[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(line)
    assert parsed == row, "a row's line is the same row"
    return parsed


def lines(*values: dict[str, Any]) -> bytes:
    return b"".join(orjson.dumps(value) + b"\n" for value in values)


def ours(body: bytes, **fields: Any) -> Any:
    def answer(received: Received) -> Given:
        assert received.target == "/nacos/v1/ns/operator/dump"
        return Given(200, body, dict(NDJSON), **fields)

    return answer


class TestOurKind:
    def test_rows_pass_as_they_are(self) -> None:
        new = {**INSTANCE, "of_a_later_release": 1}
        taken, rows = taken_of(ours(lines(HEADER, SERVICE, new, END)))
        assert rows == [SERVICE, new]
        assert taken == MemberDump(
            "10.0.0.1:8848",
            DumpState.DUMPED,
            "rollcall",
            "0.1.0",
            members=[Seen("10.0.0.1:8848", "UP"), Seen("10.0.0.2:8848", "DOWN")],
            services=1,
            instances=1,
        )

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (lines(HEADER, SERVICE, INSTANCE), "ended before its last line"),
            (lines(HEADER, SERVICE, INSTANCE, END)[:-1], "ended before its last line"),
            (lines(HEADER, SERVICE, END), "counts in its last line"),
            (lines(HEADER, SERVICE, SERVICE, INSTANCE, END), "counts in its last line"),
            (lines(SERVICE, INSTANCE, END), "first line does not describe a member"),
            (lines({**HEADER, "format": 2}, END), "its format is 2; this version reads 1"),
            (b"", "not a JSON object"),
            (lines(HEADER) + b"[]\n", "not a JSON object"),
            (lines(HEADER) + b"{\n", "not a JSON object"),
        ],
    )
    def test_what_is_cut_off_or_wrong_is_no_dump(self, body: bytes, text: str) -> None:
        with pytest.raises(CallError, match=text):
            taken_of(ours(body))

    def test_a_connection_that_breaks_is_no_end(self) -> None:
        body = lines(HEADER, SERVICE, INSTANCE, END)
        with pytest.raises(CallError, match="ended early"):
            taken_of(ours(body, cut_at=len(body) - 1))

    @pytest.mark.parametrize("header", [{"members": None}, {"members": [1, {"address": "a"}]}, {"address": 5}])
    def test_a_strange_header_is_no_crash(self, header: dict[str, Any]) -> None:
        taken, _ = taken_of(ours(lines({**HEADER, **header}, SERVICE, INSTANCE, END)))
        assert isinstance(taken.address, str)


class TestNacos1:
    def test_an_instance_alike_in_both_layers_is_one_row(self) -> None:
        members = {"10.0.0.1:8848": "UP", "10.0.0.2:8848": "SUSPICIOUS", "10.0.0.3:8848": "DOWN"}
        fake = FakeNacos(members=members)
        fake.datums = {ORDERS: [instance("10.1.0.1", healthy=True)]}
        fake.shown = {ORDERS: [instance("10.1.0.1", healthy=False)], ("public", "DEFAULT_GROUP@@empty-0"): []}
        taken, rows = taken_of(fake)
        assert (taken.kind, taken.version, taken.address) == ("nacos-1", "1.4.1", "10.0.0.1:8848")
        assert taken.members == [Seen(*one) for one in members.items()]
        mapper = DistroMapper.over("10.0.0.1:8848", ["10.0.0.1:8848", "10.0.0.2:8848"])
        owner, empty_owner = mapper.map_srv(ORDERS[1]), mapper.map_srv("DEFAULT_GROUP@@empty-0")
        assert (owner, empty_owner) == ("10.0.0.1:8848", "10.0.0.2:8848"), "both a member that is UP and one that was"
        assert rows == [
            {
                "kind": "service",
                "namespace": "public",
                "service": "DEFAULT_GROUP@@empty-0",
                "owner": empty_owner,
                "instances": 0,
                **NOTHING_SET,
            },
            {**SERVICE, "owner": owner, "instances": 1, **NOTHING_SET},
            {
                **SERVICE,
                "kind": "instance",
                "layer": "both",
                "cluster": "DEFAULT",
                "ip": "10.1.0.1",
                "port": 80,
                "ephemeral": True,
                "healthy": False,  # the view's: datums do not carry it
                "enabled": True,
                "weight": 1.0,
                "metadata": {"a": "1"},
                "owner": owner,
                "beat_age_ms": 2_000,
                "delete_timeout_ms": 30_000,
                "client": "http",
            },
        ]
        assert "/v1/ns/catalog/instances" not in [path for path, _ in fake.calls], "where nothing differs, few calls"

    def test_the_age_of_a_beat_is_by_the_members_clock_and_of_its_own_services(self) -> None:
        fake = FakeNacos(members={"10.0.0.1:8848": "UP", "10.0.0.2:8848": "UP"})
        names = [("public", f"g@@s{number}") for number in range(6)]
        fake.datums = {name: [instance("10.1.0.1", lastBeat=CLOCK_MS - 7_000)] for name in names}
        fake.shown = dict(fake.datums)
        _, rows = taken_of(fake)
        ages = {row["owner"]: row.get("beat_age_ms") for row in rows if row["kind"] == "instance"}
        assert ages == {"10.0.0.1:8848": 7_000, "10.0.0.2:8848": None}

    @pytest.mark.parametrize(
        ("datum", "shown", "layers"),
        [
            ([instance("10.1.0.1")], [], ["datum"]),
            ([], [instance("10.1.0.1")], ["view"]),
            ([instance("10.1.0.1", weight=2.0)], [instance("10.1.0.1")], ["datum", "view"]),
            ([instance("10.1.0.1", enabled=False)], [instance("10.1.0.1")], ["datum", "view"]),
            ([instance("10.1.0.1", metadata={})], [instance("10.1.0.1")], ["datum", "view"]),
            ([instance("10.1.0.1", clusterName="c2")], [instance("10.1.0.1")], ["datum", "view"]),
            ([instance("10.1.0.1"), instance("10.1.0.1")], [instance("10.1.0.1")], ["both", "datum"]),
            ([instance("10.1.0.1", metadata={"a": 1})], [instance("10.1.0.1", metadata={"a": "1"})], ["both"]),
        ],
    )
    def test_what_lasts_as_another_in_datum_and_view_is_told_of_both(
        self, datum: list[dict[str, Any]], shown: list[dict[str, Any]], layers: list[str]
    ) -> None:
        fake = FakeNacos(datums={ORDERS: datum}, shown={ORDERS: shown})
        _, rows = taken_of(fake)
        assert sorted(row["layer"] for row in rows if row["kind"] == "instance") == layers
        looked = [path for path, _ in fake.calls].count("/v1/ns/distro/datum")
        assert looked == (0 if layers == ["both"] else 3), "it was looked at again before that was said"
        assert rows[0]["instances"] == len(shown), "as many as clients see"

    def test_a_change_between_the_calls_is_no_drift(self) -> None:
        fake = FakeNacos(datums={ORDERS: [instance("10.1.0.1")]}, shown={ORDERS: [instance("10.1.0.1")]})

        def on_call(path: str, parameters: dict[str, str]) -> None:
            if path == "/v1/ns/catalog/services" and "withInstances" in parameters:
                fake.datums = fake.shown = {ORDERS: [instance("10.1.0.1", weight=9.0), instance("10.1.0.2")]}

        fake.on_call = on_call
        _, rows = taken_of(fake)
        found = [(row["ip"], row["layer"], row["weight"]) for row in rows if row["kind"] == "instance"]
        assert found == [("10.1.0.1", "both", 9.0), ("10.1.0.2", "both", 1.0)]

    def test_a_service_that_comes_between_the_calls_is_there(self) -> None:
        fake = FakeNacos()

        def on_call(path: str, parameters: dict[str, str]) -> None:
            if path == "/v1/ns/catalog/services" and "withInstances" not in parameters:
                fake.datums = fake.shown = {ORDERS: [instance("10.1.0.1")]}

        fake.on_call = on_call
        _, rows = taken_of(fake)
        assert [row["layer"] for row in rows if row["kind"] == "instance"] == ["both"]

    def test_a_datum_that_nobody_is_shown_is_drift_unless_it_is_empty(self) -> None:
        fake = FakeNacos(datums={ORDERS: [instance("10.1.0.1")], ("public", "g@@left"): []})
        _, rows = taken_of(fake)
        assert [(row["kind"], row["service"]) for row in rows] == [("service", ORDERS[1]), ("instance", ORDERS[1])]
        assert rows[1]["layer"] == "datum"

    def test_persistent_instances_are_in_no_datum_and_no_drift(self) -> None:
        durable = instance("10.1.0.2", ephemeral=False)
        fake = FakeNacos(datums={ORDERS: [instance("10.1.0.1")]}, shown={ORDERS: [instance("10.1.0.1"), durable]})
        _, rows = taken_of(fake)
        found = {row["ip"]: row for row in rows if row["kind"] == "instance"}
        assert {ip: (row["layer"], row["client"]) for ip, row in found.items()} == {
            "10.1.0.1": ("both", "http"),
            "10.1.0.2": ("both", "durable"),
        }
        assert not {"owner", "beat_age_ms", "delete_timeout_ms"} & found["10.1.0.2"].keys()

    def test_namespaces_of_the_datums_the_list_and_the_caller(self) -> None:
        fake = FakeNacos(namespaces=("", "listed"))
        held, durable = [instance("10.1.0.1")], [instance("10.1.0.1", ephemeral=False)]
        fake.datums = {("of-datums", "g@@a"): held}
        fake.shown = {
            **fake.datums,
            ("listed", "g@@b"): durable,
            ("asked", "g@@c"): durable,
            ("other", "g@@d"): durable,
        }
        _, rows = taken_of(fake, ("asked",))
        assert sorted({row["namespace"] for row in rows if row["kind"] != "record"}) == ["asked", "listed", "of-datums"]

    def test_many_services_come_in_pages(self) -> None:
        fake = FakeNacos(page_max=3, has_detail=False)
        fake.datums = {("public", f"g@@s{number}"): [instance("10.1.0.1")] for number in range(8)}
        fake.shown = dict(fake.datums)
        taken, rows = taken_of(fake)
        assert (taken.services, taken.instances) == (8, 8)
        assert {row["layer"] for row in rows if row["kind"] == "instance"} == {"both"}

    @pytest.mark.parametrize(
        "body", [b"{", b'{"com.alibaba.nacos.naming.iplist.ephemeral.public##g@@s": {"value": {}}}']
    )
    def test_datums_that_cannot_be_read_are_no_empty_ones(self, body: bytes) -> None:
        fake = FakeNacos(on_call=lambda path, _: Given(200, body) if path == "/v1/ns/distro/datums" else None)
        with pytest.raises(CallError, match="distro/datums"):
            taken_of(fake)


class TestCatalog:
    @pytest.mark.parametrize("has_detail", [True, False])
    def test_the_pages_of_a_later_nacos(self, has_detail: bool) -> None:
        fake = FakeNacos("2.3.1", has_detail=has_detail, page_max=2)
        fake.shown = {
            ORDERS: [
                instance("10.1.0.1"),
                instance("10.1.0.2", healthy=False, metadata={"n": None, "flag": True}),
                instance("10.1.0.3"),
                instance("10.1.0.4", clusterName="c2", ephemeral=False),
            ],
            ("public", "g@@empty"): [],
            ("public", "g@@other"): [],
        }
        taken, rows = taken_of(fake)
        assert (taken.kind, taken.version, taken.services, taken.instances) == ("catalog", "2.3.1", 3, 4)
        assert "/v1/ns/distro/datums" not in [path for path, _ in fake.calls], "its datums may be years old"
        by_ip = {row["ip"]: row for row in rows if row["kind"] == "instance"}
        assert by_ip["10.1.0.2"] == {
            **SERVICE,
            "kind": "instance",
            "layer": "both",
            "cluster": "DEFAULT",
            "ip": "10.1.0.2",
            "port": 80,
            "ephemeral": True,
            "healthy": False,
            "enabled": True,
            "weight": 1.0,
            "metadata": {"n": None, "flag": "true"},
            "delete_timeout_ms": 30_000,
        }
        assert (by_ip["10.1.0.4"]["cluster"], by_ip["10.1.0.4"]["client"]) == ("c2", "durable")
        assert [row["instances"] for row in rows if row["kind"] == "service"] == [4, 0, 0]

    def test_a_member_that_names_no_clusters_is_asked_once_for_all(self) -> None:
        instances = [instance("10.1.0.1"), instance("10.1.0.2", clusterName="c2"), instance("10.1.0.3")]

        def on_call(path: str, parameters: dict[str, str]) -> Given | None:
            if path == "/v1/ns/catalog/service" or path.startswith("/v1/core"):
                return Given(404, b"")
            if path == "/v1/ns/catalog/instances":
                return Given(200, orjson.dumps({"list": instances, "count": 3}))
            return None

        fake = FakeNacos(shown={ORDERS: instances}, has_detail=False, has_datums=False, on_call=on_call)
        _, rows = taken_of(fake)
        found = [(row["ip"], row["cluster"]) for row in rows if row["kind"] == "instance"]
        assert sorted(found) == [("10.1.0.1", "DEFAULT"), ("10.1.0.2", "c2"), ("10.1.0.3", "DEFAULT")]

    def test_fields_that_are_not_told_have_defaults(self) -> None:
        def on_call(path: str, _: dict[str, str]) -> Given | None:
            if path != "/v1/ns/catalog/instances":
                return None
            return Given(200, b'{"list":[{"ip":"10.1.0.1","port":80,"metadata":null}],"count":1}')

        fake = FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]}, on_call=on_call)
        _, rows = taken_of(fake)
        fields = ("cluster", "ephemeral", "healthy", "enabled", "weight", "metadata")
        assert [rows[1][name] for name in fields] == ["DEFAULT", True, True, True, 1.0, {}]
        assert "client" not in rows[1], "beats or a connection: it does not say"

    def test_what_answers_a_page_to_every_path_is_no_member(self) -> None:
        page = Given(200, b"<html>", {"Content-Type": "text/html"})
        with pytest.raises(CallError, match="catalog/services"):
            taken_of(lambda _: page)

    def test_a_member_without_a_list_of_members_is_dumped(self) -> None:
        def on_call(path: str, _: dict[str, str]) -> Given | None:
            return Given(404, b"") if path.startswith("/v1/core") else None

        fake = FakeNacos(shown={ORDERS: [instance("10.1.0.1")]}, has_datums=False, on_call=on_call)
        taken, rows = taken_of(fake)
        assert (taken.kind, taken.address, taken.members, len(rows)) == ("catalog", "", [], 2)

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/ns/catalog/services", b"[]"),
            ("/v1/ns/catalog/services", b'{"serviceList":[{}],"count":1}'),
            ("/v1/ns/catalog/services", b'{"serviceList":[5],"count":1}'),
            ("/v1/ns/catalog/instances", b'{"count":0}'),
            ("/v1/ns/catalog/instances", b'{"list":[5],"count":1}'),
            ("/v1/ns/catalog/instances", b'{"list":[{"ip":"10.0.0.1"}],"count":1}'),
            ("/v1/ns/catalog/instances", b"null"),
        ],
    )
    def test_another_shape_is_a_wrong_answer(self, path: str, body: bytes) -> None:
        fake = FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]})
        fake.on_call = lambda called, _: Given(200, body) if called == path else None
        with pytest.raises(CallError):
            taken_of(fake)

    def test_a_failure_is_not_taken_for_an_unknown_service(self) -> None:
        fake = FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]})
        fake.on_call = lambda path, _: Given(500, b"caused: no memory;") if path.endswith("instances") else None
        with pytest.raises(CallError, match="status 500, caused: no memory"):
            taken_of(fake)


class TestLogin:
    def test_every_call_has_the_token(self) -> None:
        fake = FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]}, token="secret-token")
        taken, _ = taken_of(fake, user="u", password="p")
        assert taken.instances == 1
        assert [path for path, _ in fake.calls].count("/v1/auth/login") == 1

    def test_a_nacos_3_has_another_login(self) -> None:
        fake = FakeNacos("3.0.3", shown={ORDERS: [instance("10.1.0.1")]}, token="secret-token")

        def only_login_3(path: str, _: dict[str, str]) -> Given | None:
            if path == "/v3/auth/user/login":
                return Given(200, b'{"accessToken":"secret-token"}')
            return Given(404, b"no such api") if path == "/v1/auth/login" else None

        fake.on_call = only_login_3
        taken, _ = taken_of(fake, user="u", password="p")
        assert taken.instances == 1

    def test_a_token_that_ran_out_is_replaced(self) -> None:
        fake = FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]}, token="first")

        def on_call(path: str, parameters: dict[str, str]) -> None:
            if path == "/v1/ns/catalog/instances" and parameters["accessToken"] == "first":
                fake.token = "second"

        fake.on_call = on_call
        taken, _ = taken_of(fake, user="u", password="p")
        assert taken.instances == 1
        assert [path for path, _ in fake.calls].count("/v1/auth/login") == 2

    def test_a_wrong_password_is_said_and_neither_it_nor_the_token_shown(self) -> None:
        fake = FakeNacos("2.3.1", on_call=lambda path, _: Given(403, b"unknown user!") if "login" in path else None)
        with pytest.raises(CallError, match=r"/v1/auth/login: status 403, unknown user!") as raised:
            taken_of(fake, user="u", password="p4ssw0rd")
        assert "p4ssw0rd" not in str(raised.value)

    def test_without_a_user_a_refusal_is_the_answer(self) -> None:
        with pytest.raises(CallError, match="status 403"):
            taken_of(FakeNacos("2.3.1", token="t"))

    def test_a_member_that_knows_no_login_is_asked_without(self) -> None:
        taken, _ = taken_of(FakeNacos("2.3.1", shown={ORDERS: [instance("10.1.0.1")]}), user="u", password="p")
        assert taken.instances == 1

    def test_the_identity_goes_with_calls_of_nacos_alone(self) -> None:
        seen: dict[str, set[str | None]] = {}

        def answer(received: Received) -> Given:
            path = received.target.partition("?")[0]
            seen.setdefault(path, set()).add(received.headers.get("serveridentity"))
            return FakeNacos("1.4.1")(received)

        taken_of(answer, identity=("serverIdentity", "secret"), user="u", password="p")
        assert seen.pop("/nacos/v1/ns/operator/dump") == {None}, "a Rollcall member needs none"
        assert seen.pop("/nacos/v1/auth/login") == {None}
        assert seen.pop("/nacos/v3/auth/user/login") == {None}
        assert seen["/nacos/v1/ns/distro/datums"] == {"secret"}
        assert set().union(*seen.values()) == {"secret"}
