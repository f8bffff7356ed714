"""Names: how they are put together, taken apart and refused."""

import pytest

from app.naming.model import keys
from app.naming.model.keys import FULL_NAME_CHARS_MAX, NAME_CHARS_MAX, NAMESPACE_ID_CHARS_MAX
from app.naming.model.nacos_errors import InvalidParam


def test_a_name_gets_its_group_once() -> None:
    assert keys.compose_service_name("orders", "G") == "G@@orders"
    assert keys.compose_service_name("H@@orders", "G") == "H@@orders"


@pytest.mark.parametrize(
    ("full_name", "group", "short"),
    [("G@@orders", "G", "orders"), ("orders", "orders", "orders"), ("G@@a@@b", "G", "a"), ("@@x", "", "x")],
)
def test_a_name_is_taken_apart(full_name: str, group: str, short: str) -> None:
    assert (keys.group_of(full_name), keys.short_name_of(full_name)) == (group, short)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (keys.datum_key("public", "G@@a"), ("public", "G@@a")),
        (keys.datum_key("", "G@@a##b"), ("", "G@@a##b")),
        (keys.datum_key("public", ""), None),
        (keys.EPHEMERAL_PREFIX + "public", None),
        ("public##G@@a", None),
    ],
)
def test_a_datum_key_is_taken_apart(key: str, parts: tuple[str, str] | None) -> None:
    assert keys.parse_datum_key(key) == parts


def test_ids_of_instances() -> None:
    assert keys.instance_key("10.0.0.1", 1, "C") == "10.0.0.1:1:unknown:C"
    assert keys.instance_key("10.0.0.1", 0, "C") == "10.0.0.1:unknown:C"
    assert keys.simple_instance_id("10.0.0.1", 80, "C", "G@@a") == "10.0.0.1#80#C#G@@a"


@pytest.mark.parametrize("full_name", ["orders", "G@@", "", "@@", "G@@@@"])
def test_a_name_needs_both_parts(full_name: str) -> None:
    with pytest.raises(InvalidParam):
        keys.check_service_format(full_name)


@pytest.mark.parametrize("full_name", ["G@@a", "@@a", "G@@a@@b", "G@@a@@"])
def test_a_name_with_both_parts(full_name: str) -> None:
    keys.check_service_format(full_name)


@pytest.mark.parametrize(
    ("check", "longest", "wrong"),
    [
        (keys.check_service_chars, "a" * FULL_NAME_CHARS_MAX, ["a\nb", "", "a\ud800", "a" * (FULL_NAME_CHARS_MAX + 1)]),
        (keys.check_cluster_chars, "a" * NAME_CHARS_MAX, ["a_b", "", "a" * (NAME_CHARS_MAX + 1)]),
        (keys.check_namespace, "a" * NAME_CHARS_MAX, ["a##b", "a#", "a" * (NAME_CHARS_MAX + 1)]),
    ],
    ids=["service", "cluster", "namespace"],
)
def test_names_have_a_length_and_characters(check: object, longest: str, wrong: list[str]) -> None:
    check(longest)  # type: ignore[operator]
    for name in wrong:
        with pytest.raises(InvalidParam):
            check(name)  # type: ignore[operator]


def test_the_id_of_a_namespace_that_is_created_has_a_length_and_characters() -> None:
    longest = "a" * NAMESPACE_ID_CHARS_MAX
    assert all(map(keys.is_namespace_id, ["a-B_1", longest]))
    assert not any(map(keys.is_namespace_id, ["", "a b", "\u00e4", "a\n", longest + "a"]))


@pytest.mark.parametrize("names", [("a\nb", "C", "n"), ("G@@a", "C_", "n"), ("G@@a", "C", "n#")])
def test_names_are_checked_together(names: tuple[str, str, str]) -> None:
    keys.check_names("G@@a", "C", "n")
    with pytest.raises(InvalidParam):
        keys.check_names(*names)
