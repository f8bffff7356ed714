"""Rights against a plain model: a regular expression over each part of the resource."""

import re

from hypothesis import given
from hypothesis import strategies as st

from app.auth.access_rules import Action
from app.auth.user_rights import Pattern, Permission, Resource, Rights

NAMES = st.text("ab.:-@", max_size=6)
PATTERNS = st.text("ab.*", max_size=6)
ACTIONS = st.sampled_from(["r", "w", "rw"])


def plain(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


@given(PATTERNS, st.text("ab.\n", max_size=12))
def test_a_pattern_is_the_regular_expression(pattern: str, text: str) -> None:
    assert Pattern.of(pattern).matches(text) == plain(pattern, text)


@given(PATTERNS, PATTERNS, PATTERNS, ACTIONS, NAMES, NAMES, NAMES, st.sampled_from(Action))
def test_a_permission_is_three_patterns_and_its_letters(
    namespace: str, group: str, service: str, actions: str, of: str, its_group: str, its_name: str, action: Action
) -> None:
    permission = Permission.of(f"{namespace}:{group}:naming/{service}", actions)
    assert permission is not None
    expected = action.value in actions and plain(namespace, of) and plain(group, its_group) and plain(service, its_name)
    assert permission.allows(action, Resource(of, its_group, its_name)) == expected


@given(st.text(max_size=40), ACTIONS, NAMES, NAMES, NAMES)
def test_no_text_of_a_rule_permits_another_namespace(rule: str, actions: str, of: str, group: str, name: str) -> None:
    """A rule without a star there names its namespace before the first colon, and permits no other."""
    permission = Permission.of(rule, actions)
    if permission is None or "*" in rule.partition(":")[0]:
        return
    named = rule.partition(":")[0]
    for action in Action:
        if permission.allows(action, Resource(of, group, name)):
            assert of == ("" if named == "public" else named)


@given(st.lists(st.tuples(PATTERNS, ACTIONS), max_size=5), NAMES, st.sampled_from(Action))
def test_rights_are_the_sum_of_permissions(rules: list[tuple[str, str]], of: str, action: Action) -> None:
    permissions = [one for rule, actions in rules if (one := Permission.of(f"{rule}:*:*", actions)) is not None]
    expected = any(action.value in actions and plain(rule, of) for rule, actions in rules)
    assert Rights.of((), permissions).allows(action, Resource(of, "g", "s")) == expected
