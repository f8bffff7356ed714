"""The settings of links: where they come from, what is refused, and which services a link chooses."""

from pathlib import Path

import pytest

from app.config.link_fields import OF_MEMBERS
from app.config.link_settings import NAME, LinkFilter, LinkSettings, LinkSource, LinksRead
from app.config.settings import read_settings
from app.config.settings_keys import SettingError
from app.naming.records import record_values


def links(**texts: str) -> tuple[LinkSettings, ...]:
    given = {f"rollcall.link.{name.replace('__', '.')}": text for name, text in texts.items()}
    return LinkSource(((given, "test"),)).read()


def test_a_link_needs_its_servers_alone() -> None:
    [one] = links(b__servers="10.0.0.1, 10.0.0.2:9000")
    assert (one.name, one.servers) == ("b", ("10.0.0.1:8848", "10.0.0.2:9000"))
    assert (one.follows, one.arrival, one.retain_ms, one.context_path) == (True, "merge", 600_000, "/nacos")
    assert "secret" not in repr(links(b__servers="h", b__user="u", b__password="secret"))


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"b__servers": "a:b:c"}, r"rollcall\.link\.b\.servers=a:b:c \(test\) is not allowed"),
        ({"b__weight": "2"}, r"rollcall\.link\.b\.servers"),
        ({"b__servers": "h", "b__user": "u"}, "need each other"),
        ({"b__servers": "h", "b__sevrices": "x"}, "is not a setting of a link; the settings are servers"),
        ({"b__servers": "h", "b__namespaceMap": "a:x,b:x"}, "namespaceMap"),
        ({"b__servers": "h", "b__weight": "-1"}, "from 0 to 100"),
        ({"b__servers": "h", "b__services": "!"}, "excludes"),
        ({"a_b__servers": "h"}, "letters, digits and -"),
        ({"b__servers": "h", "b__kind": "nacos2"}, "rollcall or nacos or nacos1"),
        ({"b__servers": "h", "b__kind": "nacos", "b__direction": "out"}, r"direction=out needs rollcall\.cluster\.id"),
        ({f"l{number}__servers": "h" for number in range(33)}, "33 links are over the limit of 32"),
    ],
)
def test_what_is_not_allowed_is_named(texts: dict[str, str], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        links(**texts)


def test_the_nearer_source_counts_and_the_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "application.properties"
    file.write_text("rollcall.link.b.servers=h\nrollcall.link.b.weight=2")
    environ = {"rollcall.conf.dir": str(tmp_path), "ROLLCALL_LINK_B_WEIGHT": "3", "ROLLCALL_LINK_C_SERVERS": "i"}
    settings = read_settings({}, environ)
    assert settings.warnings == ()
    assert [(one.name, one.weight) for one in settings.links.read()] == [("b", 3.0), ("c", 1.0)]
    stamp = settings.links.stamp()
    file.write_text("")
    assert settings.links.stamp() != stamp
    with pytest.raises(SettingError, match=r"link\.b\.servers"):
        settings.links.read()


@pytest.mark.parametrize(
    ("kind", "direction", "expected"),
    [
        ("rollcall", "out", (False, False)),
        ("rollcall", "both", (True, False)),
        ("nacos", "in", (True, False)),
        ("nacos", "out", (False, True)),
        ("nacos1", "both", (True, True)),
    ],
)
def test_the_kind_and_the_direction_say_what_a_link_does(
    kind: str, direction: str, expected: tuple[bool, bool]
) -> None:
    texts = {"rollcall.link.b.servers": "h", "rollcall.link.b.kind": kind, "rollcall.link.b.direction": direction}
    [one] = LinkSource(((texts, "test"),), cluster_id="here").read()
    assert (one.follows, one.sends) == expected


def test_a_node_does_not_start_with_a_wrong_link() -> None:
    with pytest.raises(SettingError, match="arrival"):
        read_settings({"rollcall.link.b.servers": "h", "rollcall.link.b.arrival": "never"}, {})


def called_links(called: dict[str, dict[str, str]], **texts: str) -> LinksRead:
    given = {f"rollcall.link.{name.replace('__', '.')}": text for name, text in texts.items()}
    return LinkSource(((given, "test"),)).read_with(called)


def test_a_field_of_a_call_counts_before_all_others_and_the_rest_stays() -> None:
    [one] = called_links({"b": {"weight": "2"}}, b__servers="h", b__weight="3", b__arrival="apart").links
    assert (one.servers, one.weight, one.arrival) == (("h:8848",), 2.0, "apart")
    [first, second] = called_links({"a": {"servers": "i"}}, b__servers="h").links
    assert (first.name, first.servers, second.name) == ("a", ("i:8848",), "b")


def test_a_login_alone_waits_for_servers_of_a_call() -> None:
    login = {"b__user": "u", "b__password": "secret", "b__trusted": "/ca.pem"}
    assert [one.name for one in links(**login, c__servers="h")] == ["c"]
    [one] = called_links({"b": {"servers": "i", "tls": "true"}}, **login).links
    assert (one.servers, one.user, one.password, one.tls) == (("i:8848",), "u", "secret", True)
    assert links(b__password="secret") == ()
    [one] = called_links({"b": {"servers": "i", "user": "v"}}, b__password="secret").links
    assert (one.user, one.password) == ("v", "secret")


def test_a_link_that_a_call_turns_off_does_nothing() -> None:
    [one] = called_links({"b": {"enabled": "false"}}, b__servers="h").links
    assert (one.follows, one.sends, one.servers) == (False, False, ("h:8848",))


def test_a_call_that_is_not_allowed_refuses_its_link_alone() -> None:
    called = {"b": {"later": "x"}, "c": {"weight": "-1"}, "d": {"servers": "i", "user": "u"}, "e": {"weight": "2"}}
    read = called_links(called, a__servers="h", b__servers="h", c__servers="h")
    assert [one.name for one in read.links] == ["a"]
    assert list(read.refused) == ["b", "c", "d"]
    assert read.refused["b"].startswith("rollcall.link.b.later (a call) is not a setting of a link")
    assert "rollcall.link.c.weight=-1 (a call) is not allowed" in read.refused["c"]
    assert "need each other" in read.refused["d"]
    with pytest.raises(SettingError, match=r"rollcall\.link\.a\.weight"):
        called_links(called, a__servers="h", a__weight="-1")


def test_calls_add_no_link_above_the_limit() -> None:
    file = {f"f{number}__servers": "h" for number in range(31)}
    read = called_links({"b": {"servers": "h"}, "a": {"servers": "h"}}, **file)
    assert (len(read.links), read.refused) == (32, {"b": "33 links are over the limit of 32"})


@pytest.mark.parametrize(
    ("called", "why"),
    [
        ({"b": {"weight": "2"}}, r"rollcall\.link\.b\.servers= \(default\) is not allowed"),
        ({"b": {"servers": "a:b:c"}}, r"rollcall\.link\.b\.servers=a:b:c \(a call\)"),
        ({f"l{number}": {"servers": "h"} for number in range(32)} | {"b": {"servers": "h"}}, "33 links"),
    ],
)
def test_what_a_call_may_not_set_is_named(called: dict[str, dict[str, str]], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        LinkSource().check_called("b", called)
    LinkSource().check_called("b", {"b": {"servers": "h"}})


def test_patterns_choose_and_exclude() -> None:
    chosen = LinkFilter(("prod*",), ("!TEST_*",), ("orders", "pay-?", "!pay-x"))
    assert chosen.takes("prod-1", "G", "orders")
    assert chosen.takes("prod", "G", "pay-1")
    for name in (("dev", "G", "orders"), ("prod", "TEST_G", "orders"), ("prod", "G", "pay-x"), ("prod", "G", "other")):
        assert not chosen.takes(*name)


def test_renamed_namespaces_come_back_under_their_first_name() -> None:
    [one] = links(b__servers="h", b__namespaceMap="prod:prod-b")
    assert [one.here(name) for name in ("prod", "other", "prod-b")] == ["prod-b", "other", None]
    assert [one.there(name) for name in ("prod-b", "other")] == ["prod", "other"]


def test_records_have_the_names_of_links_and_the_secrets_that_settings_have() -> None:
    """The two do not know each other: records are checked as they come, settings as they are read."""
    assert record_values.LINK_NAME.pattern == NAME.pattern
    assert set(OF_MEMBERS) == record_values.LINK_FIELDS_OF_MEMBERS
