"""Patterns match as those of Nacos 3.0.3, by which clients match too; a permission must cover all that matches."""

import pytest

from app.auth.access_rules import Action
from app.auth.user_rights import Permission
from app.naming.model.nacos_errors import InvalidParam
from app.rpc.server.fuzzy_pattern import FuzzyPattern, service_key


@pytest.mark.parametrize(
    ("part", "matching", "other"),
    [
        ("orders", ["orders"], ["orders2", "order", "Orders", ""]),
        ("*", ["orders", "a"], []),
        ("or*", ["or", "orders"], ["order2"[1:], "xor"]),
        ("*ers", ["ers", "orders"], ["orders2"]),
        ("*rde*", ["rde", "orders"], ["order"[:3]]),
        ("or*ers", [], ["orders", "or*ers"]),
        ("*or*ers*", ["xorersx"], ["orders"]),
        ("or*er*", ["orer", "orers"], ["orders"]),
        ("**", ["orders"], []),
    ],
)
def test_stars_count_at_the_ends(part: str, matching: list[str], other: list[str]) -> None:
    by_service, by_group = FuzzyPattern.of(f"dev>>g>>{part}"), FuzzyPattern.of(f"dev>>{part}>>s")
    for name in [*matching, *other]:
        assert by_service.matches(f"g@@{name}") is (name in matching), name
        assert by_group.matches(f"{name}@@s") is (name in matching), name
        assert not by_service.matches(f"h@@{name}")


@pytest.mark.parametrize(
    "text",
    ["", "a", "a>>b", "a>>b>>", ">>b>>c", "a>> >>c", "a>>b>>c>>d", "*>>b>>c", "dev*>>b>>c", "a>>b>>" + 1_100 * "x"],
)
def test_another_text_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidParam, match="groupKeyPattern"):
        FuzzyPattern.of(text)


def test_a_service_has_three_names_in_one() -> None:
    assert service_key("public", "DEFAULT_GROUP@@orders") == "public@@DEFAULT_GROUP@@orders"


@pytest.mark.parametrize(
    ("pattern", "resource", "may"),
    [
        ("public>>*>>*", ":*:*", True),
        ("public>>*>>*", "public:*:*", True),
        ("public>>*>>*", "dev:*:*", False),
        ("public>>*>>*", "public:shop:*", False),
        ("public>>shop>>*", "public:shop:*", True),
        ("public>>shop*>>*", "public:shop:*", False),
        ("public>>shop*>>*", "public:shop*:*", True),
        ("public>>sho*>>*", "public:shop*:*", False),
        ("dev>>g>>order*", "dev:g:naming/order*", True),
        ("dev>>g>>*order*", "dev:g:naming/order*", False),
        ("dev>>g>>orders", "dev:g:naming/orders", True),
        ("dev>>g>>*", "dev:g:naming/orders", False),
    ],
)
def test_a_permission_covers_a_pattern_only_with_all_that_it_matches(pattern: str, resource: str, may: bool) -> None:
    permission = Permission.of(resource, "r")
    assert permission is not None
    assert permission.allows(Action.READ, FuzzyPattern.of(pattern).resource) is may
