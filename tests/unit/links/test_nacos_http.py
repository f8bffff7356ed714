"""A link over HTTP to a Nacos 1.x, which a Rollcall node plays: lists, pushes over UDP, registrations and beats."""

import socket
from collections.abc import Iterator

import orjson
import pytest

from app.links import nacos_http
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_http import HttpNacos
from app.links.nacos_side import Registration
from app.links.nacos_values import sent_rows
from app.naming.model.model import Instance
from app.testing import Registry
from tests.unit.links.test_nacos_out import settings_of

NAME = ("public", "DEFAULT_GROUP@@orders")
NONE: frozenset[tuple[str, int, str]] = frozenset()


@pytest.fixture
def there() -> Iterator[Registry]:
    with Registry() as one:
        yield one


@pytest.fixture
def side(there: Registry) -> Iterator[HttpNacos]:
    one = HttpNacos(settings_of(servers=there.address, kind="nacos1"), there.address)
    one.open()
    yield one
    one.close(withdraws=False)


def rows_of(*ips: str, healthy: bool = True) -> dict[tuple[str, int, str], dict[str, object]]:
    return sent_rows([Instance(ip, 80, healthy=healthy, metadata={"zone": "a"}) for ip in ips], "here", NONE)


def seen(there: Registry) -> dict[str, bool]:
    return {one.ip: one.healthy for one in there.instances("orders")}


def test_a_push_is_a_hint_to_ask_and_a_stranger_changes_nothing(there: Registry, side: HttpNacos) -> None:
    there.register("orders", "10.0.0.1", 80)
    [info] = side.watch([NAME])
    assert not isinstance(info, LinkRefused)
    [one] = info["hosts"]
    assert (one["ip"], side.names("public", ())) == ("10.0.0.1", {NAME[1]})
    there.register("orders", "10.0.0.2", 80)
    pushed = []
    while not pushed:
        pushed = [one for one in side.take(5.0) if one.size]
    assert [(one.name, one.info) for one in pushed] == [(NAME, None)]
    port = side._udp.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (b"", b"{}", b"\x1f\x8b", b'{"data":"{}"}', b'{"data":"{\\"name\\":1}","lastRefTime":1}'):
            stranger.sendto(data, port)
        stranger.sendto(orjson.dumps({"data": '{"name":"G@@other"}', "lastRefTime": 1}), port)
        assert [one for one in side.take(1.0) if one.size] == []


def test_a_list_is_asked_for_from_time_to_time(side: HttpNacos, monkeypatch: pytest.MonkeyPatch) -> None:
    side.watch([NAME])
    assert side.take(0.0) == []
    monkeypatch.setattr(nacos_http, "POLL_S", 0.0)
    monkeypatch.setattr(nacos_http, "POLLS_PER_S", 1e9)
    assert [one.name for one in side.take(0.0)] == [NAME]
    side.leave(NAME)
    assert side.take(0.0) == []
    side.wake()
    assert side.take(60.0) == []


def test_instances_are_registered_changed_and_removed_one_by_one(there: Registry, side: HttpNacos) -> None:
    side.register([Registration(NAME, rows_of("10.0.0.1", "10.0.0.2"), NONE, False)])
    assert seen(there) == {"10.0.0.1": True, "10.0.0.2": True}
    assert there.instances("orders")[0].metadata == {"zone": "a", "rollcall.origin": "here"}
    side.register(
        [Registration(NAME, rows_of("10.0.0.2", "10.0.0.3") | rows_of("10.0.0.2", healthy=False), NONE, False)]
    )
    assert seen(there) == {"10.0.0.2": False, "10.0.0.3": True}
    side.register([Registration(NAME, {}, NONE, False)])
    assert seen(there) == {}


def test_an_address_that_a_client_registered_there_meanwhile_stays(there: Registry, side: HttpNacos) -> None:
    side.register([Registration(NAME, rows_of("10.0.0.1"), NONE, False)])
    there.register("orders", "10.0.0.1", 80)
    side.register([Registration(NAME, {}, frozenset({("10.0.0.1", 80, "DEFAULT")}), False)])
    assert seen(there) == {"10.0.0.1": True}


def test_a_beat_registers_again_what_the_nacos_lost_but_nothing_that_was_handed_over(
    there: Registry, side: HttpNacos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nacos_http, "BEAT_S", 0.0)
    monkeypatch.setattr(nacos_http, "AGAIN_S", 0.0)
    side.register([Registration(NAME, rows_of("10.0.0.1"), NONE, False)])
    rows = rows_of("10.0.0.2", healthy=False) | rows_of("10.0.0.3")
    side.register([Registration(("public", "DEFAULT_GROUP@@ill"), rows, NONE, False)])
    there.deregister("orders", "10.0.0.1", 80)
    there.deregister("ill", "10.0.0.2", 80)
    side.check()
    assert seen(there) == {"10.0.0.1": True}
    assert {one.ip: one.healthy for one in there.instances("ill")} == {"10.0.0.2": False, "10.0.0.3": True}
    side.register([Registration(NAME, {}, NONE, True)])
    there.deregister("orders", "10.0.0.1", 80)
    side.check()
    assert seen(there) == {}


@pytest.mark.parametrize("withdraws", [True, False])
def test_only_a_link_that_ends_removes_what_it_registered(there: Registry, withdraws: bool) -> None:
    one = HttpNacos(settings_of(servers=there.address, kind="nacos1"), there.address)
    one.open()
    one.register([Registration(NAME, rows_of("10.0.0.1"), NONE, False)])
    one.close(withdraws=withdraws)
    assert set(seen(there)) == (set() if withdraws else {"10.0.0.1"})


def test_a_server_that_is_not_there_is_named() -> None:
    one = HttpNacos(settings_of(kind="nacos1"), "127.0.0.1:1")
    with pytest.raises(LinkError, match=r"127\.0\.0\.1:1 does not answer"):
        one.open()
    one.close(withdraws=True)
