"""The names of services that each line of Nacos allows, and those that members store."""

import pytest

from app.naming.model.keys import FULL_NAME_CHARS_MAX
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.service_names import NameRule, check_service_name, is_usual_name

G = "DEFAULT_GROUP@@"
PROVIDER, CONSUMER = "providers:com.foo.Outer$Inner:1.0.0:", "consumers:X:1.0:*"
ONE, TWO, STORED = NameRule.NACOS_1, NameRule.NACOS_2, NameRule.STORED


def rules_of(full_name: str) -> set[NameRule]:
    """Return the rules that allow a name."""
    found = set()
    for rule in NameRule:
        try:
            check_service_name(full_name, rule)
        except InvalidParam:
            continue
        found.add(rule)
    return found


@pytest.mark.parametrize("name", ["orders", "a.b-c_d:e", "A" * 512, "a@b", "providers:X:1.0:"])
def test_names_of_every_line(name: str) -> None:
    assert rules_of(G + name) == {ONE, TWO, STORED}


@pytest.mark.parametrize(
    "name",
    [
        PROVIDER,
        CONSUMER,
        *(f"a{char}b" for char in "$/#,%+?&=()[]*|~!^`'\"<>{};\\"),
        "é",
        "a##b",
        "a\u3000b",
        "カ",
        "😀",
    ],
)
def test_names_of_nacos_2(name: str) -> None:
    assert rules_of(G + name) == {TWO, STORED}


@pytest.mark.parametrize("name", ["a b", "服务", "a服务", "a b c ", "a "])
def test_names_of_nacos_before_2_3(name: str) -> None:
    assert rules_of(G + name) == {STORED}


@pytest.mark.parametrize("name", ["服", "服a", " a"])
def test_the_first_character_may_be_any_as_in_nacos(name: str) -> None:
    assert rules_of(G + name) == {TWO, STORED}


@pytest.mark.parametrize("full_name", ["@G@@a", "a@b@@c", "G@@@a", "G@@a@@b", "g" * 129 + "@@a"])
def test_names_that_1_4_and_nobody_later_allows(full_name: str) -> None:
    assert rules_of(full_name) == {ONE, STORED}


@pytest.mark.parametrize("full_name", ["G H@@a", "服@@a", "G$@@a"])
def test_a_group_has_fewer_characters_than_a_service(full_name: str) -> None:
    assert rules_of(full_name) == {STORED}


@pytest.mark.parametrize(
    "full_name",
    ["", "a", "G@@", "@@", "G@@a\nb", "G@@a\tb", "G@@a\0", "G@@a\x85b", "G@@a\u2028b", "G@@a\ud800", "\n@@a"],
)
def test_names_that_nobody_allows(full_name: str) -> None:
    assert rules_of(full_name) == set()


def test_names_have_a_length() -> None:
    group, name = "g" * 128, "n" * 512
    assert len(f"{group}@@{name}") == FULL_NAME_CHARS_MAX
    assert rules_of(f"{group}@@{name}") == {ONE, TWO, STORED}
    assert rules_of(f"{group}@@{name}n") == set()
    assert rules_of(f"g@@{name}n") == {ONE, STORED}


@pytest.mark.parametrize(
    ("full_name", "rule", "text"),
    [
        ("G@@a$", ONE, "dom name can only have these characters: 0-9a-zA-Z-._:, current: G@@a$"),
        ("G@@a b", TWO, "Param 'serviceName' is illegal, illegal characters should not appear in the param."),
        ("G$@@a", TWO, "Param 'group' is illegal, illegal characters should not appear in the param."),
        ("G@@" + "a" * 513, TWO, "Param 'serviceName' is illegal, the param length should not exceed 512."),
        ("g" * 129 + "@@a", TWO, "Param 'group' is illegal, the param length should not exceed 128."),
        ("G@@a\n", STORED, "Param 'serviceName' is illegal, illegal characters should not appear in the param."),
    ],
)
def test_refusals_have_the_texts_of_nacos(full_name: str, rule: NameRule, text: str) -> None:
    with pytest.raises(InvalidParam) as refused:
        check_service_name(full_name, rule)
    assert refused.value.text == text


@pytest.mark.parametrize("full_name", ["G@@orders", "g-1_a.b:c@@com.foo.Orders:1.0:", "g" * 128 + "@@" + "n" * 512])
def test_usual_names_pass_every_rule(full_name: str) -> None:
    assert is_usual_name(full_name)
    assert rules_of(full_name) == {ONE, TWO, STORED}


@pytest.mark.parametrize(
    "full_name", ["G@@a$", "G@@a@@b", "@@a", "G@@", "a", "G@@" + "n" * 513, "g" * 129 + "@@a", "G@@a\n"]
)
def test_other_names_are_looked_at(full_name: str) -> None:
    assert not is_usual_name(full_name)
