"""The names that a Nacos lists over HTTP to a link: of each line's paths the one that is there, and with a token."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from app.links import nacos_catalog
from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_catalog import NacosCatalog
from tests.support.tiny_server import Given, Received, refusing_address, tiny_server
from tests.unit.links.test_nacos_out import settings_of

Answer = Callable[[str, dict[str, str]], object]


def answering(answer: Answer) -> Callable[[Received], Given]:
    """Answer a path and its parameters with JSON; with 404 if it gives None."""

    def given(received: Received) -> Given:
        url = urlsplit(received.target)
        found = answer(url.path.removeprefix("/nacos"), {name: one[0] for name, one in parse_qs(url.query).items()})
        return Given(404, b"no such call") if found is None else Given(200, orjson.dumps(found))

    return given


def test_names_come_page_by_page_from_the_path_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nacos_catalog, "PAGE", 2)
    asked = []

    def of_nacos_3(path: str, query: dict[str, str]) -> object:
        asked.append(path)
        if path == "/v3/admin/core/namespace/list":
            return {"code": 0, "data": [{"namespace": ""}, {"namespace": "dev"}]}
        if path != "/v3/admin/ns/service/list":
            return None
        pages = {"1": [{"name": "a", "groupName": "G"}, {"name": "b"}], "2": [{"name": "G@@c"}, {"name": 1}], "3": []}
        return {"code": 0, "data": {"pageItems": pages[query["pageNo"]]}}

    with tiny_server(answering(of_nacos_3)) as server:
        catalog = NacosCatalog(settings_of(servers=server.address), server.address)
        assert catalog.namespaces() == ["public", "dev"]
        assert catalog.names("public") == {"G@@a", "DEFAULT_GROUP@@b", "G@@c"}
        catalog.names("public")
        assert asked.count("/v1/ns/catalog/services") == 1, "it is asked again for what it refused"


def test_a_nacos_that_lists_nothing_to_the_user_says_so() -> None:
    with tiny_server(answering(lambda path, query: None)) as server:
        catalog = NacosCatalog(settings_of(servers=server.address), server.address)
        assert (catalog.names("public"), catalog.names("public"), catalog.namespaces()) == (None, None, [])
    with pytest.raises(LinkError, match="without a list"), tiny_server(answering(lambda path, query: {})) as server:
        NacosCatalog(settings_of(servers=server.address), server.address).names("public")
    silent = NacosCatalog(settings_of(), refusing_address())
    with pytest.raises(LinkError, match="does not answer"):
        silent.names("public")


def test_a_token_is_renewed_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, given = [0.0], []
    monkeypatch.setattr(nacos_catalog.time, "monotonic", lambda: now_s[0])

    def logged_in(path: str, query: dict[str, str]) -> object:
        if path != "/v3/auth/user/login":
            return None
        given.append(f"token-{len(given)}")
        return {"accessToken": given[-1], "tokenTtl": 100}

    with tiny_server(answering(logged_in)) as server:
        settings = settings_of(servers=server.address, user="link", password="secret")
        catalog = NacosCatalog(settings, server.address)
        tokens = []
        for at_s in (0.0, 49.0, 50.0, 99.0, 100.0):
            now_s[0] = at_s
            tokens.append(catalog.log_in())
    assert tokens == ["token-0", "token-0", "token-1", "token-1", "token-2"]


def test_a_link_without_a_user_has_no_token_and_a_refused_one_is_told() -> None:
    assert NacosCatalog(settings_of(), "127.0.0.1:1").log_in() == ""
    with tiny_server(answering(lambda path, query: None)) as server:
        settings = settings_of(servers=server.address, user="link", password="secret")
        with pytest.raises(LinkRefused, match="404"):
            NacosCatalog(settings, server.address).log_in()
