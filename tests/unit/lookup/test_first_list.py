from pathlib import Path

import pytest

from app.config.settings import Settings, read_settings
from app.members import member_sources
from app.members.last_list import LastList, with_first_list
from tests.support.tiny_server import Given, refusing_address, tiny_server

ELSEWHERE = "192.0.2.7:8848"


def settings(tmp_path: Path, address: str, **more: str) -> Settings:
    host, _, port = address.rpartition(":")
    return read_settings(
        {
            "address.server.domain": host,
            "address.server.port": port,
            "rollcall.data.dir": str(tmp_path),
            "rollcall.cluster.withoutIdentity": "true",
        }
        | {name.replace("_", "."): value for name, value in more.items()},
        {},
    )


def test_this_node_is_known_as_the_list_has_it(tmp_path: Path) -> None:
    """As in a file: by the listed host that is this machine's, with our port."""
    with tiny_server(lambda _: Given(body=f"{ELSEWHERE}\nlocalhost:8848".encode())) as server:
        found = with_first_list(settings(tmp_path, server.address, server_address="0.0.0.0"))
    assert (found.self_address, found.members) == ("localhost:8848", (ELSEWHERE, "localhost:8848"))


def test_the_own_address_that_is_set_stays(tmp_path: Path) -> None:
    with tiny_server(lambda _: Given(body=b"127.0.0.1:8848")) as server:
        found = with_first_list(settings(tmp_path, server.address, nacos_server_ip="192.0.2.9"))
    assert (found.self_address, found.members) == ("192.0.2.9:8848", ("127.0.0.1:8848", "192.0.2.9:8848"))


def test_without_an_answer_the_last_list_counts(tmp_path: Path) -> None:
    LastList(tmp_path).write((ELSEWHERE, "127.0.0.1:8848"))
    found = with_first_list(settings(tmp_path, refusing_address()))
    assert found.members == (ELSEWHERE, "127.0.0.1:8848")


def test_without_any_list_nothing_is_known(tmp_path: Path) -> None:
    asked = settings(tmp_path, refusing_address())
    assert with_first_list(asked) == asked
    assert asked.members == (asked.self_address,)


def test_a_name_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_sources, "look_up", lambda host: frozenset({"192.0.2.7", "127.0.0.1"}))
    asked = read_settings({"rollcall.member.dns": "members.example", "rollcall.cluster.withoutIdentity": "true"}, {})
    found = with_first_list(asked)
    assert (found.self_address, set(found.members)) == ("127.0.0.1:8848", {ELSEWHERE, "127.0.0.1:8848"})


def test_a_list_of_a_file_is_read_already(tmp_path: Path) -> None:
    asked = read_settings({"nacos.member.list": "127.0.0.1:8848,127.0.0.1:8858"}, {})
    assert with_first_list(asked) is asked


def test_a_list_that_this_node_may_not_take(tmp_path: Path) -> None:
    """Members beyond loopback need an identity; it waits until it may take a list."""
    with tiny_server(lambda _: Given(body=f"{ELSEWHERE}\n127.0.0.1:8848".encode())) as server:
        asked = settings(tmp_path, server.address, rollcall_cluster_withoutIdentity="false")
        assert with_first_list(asked).members == ("127.0.0.1:8848",)
