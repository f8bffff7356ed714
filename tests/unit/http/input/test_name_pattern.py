"""Searching in names without regular expressions of strangers."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.input.values import PATTERN_CHARS_MAX, literal_pattern, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "anything", True),
        ("order", "my-orders", True),
        ("order", "my-oder", False),
        ("o.der", "my-orders", True),
        ("o\\.der", "my-orders", False),
        ("o\\.der", "my-o.ders", True),
        ("my.*ers", "my-orders", True),
        ("ers.*my", "my-orders", False),
        (".*my.*", "my-orders", True),
        ("a.*a", "a", False),
        ("a b", "a b", True),
    ],
)
def test_what_is_found(pattern: str, text: str, found: bool) -> None:
    assert parse_pattern(pattern).matches(text) is found


@pytest.mark.parametrize("pattern", ["*", "a*", "a+", "(a)", "[a]", "a{2}", "a|b", "^a", "a$", "\\", "\\d", "a?"])
def test_what_is_not_known(pattern: str) -> None:
    with pytest.raises(ValueError, match="part of a name"):
        parse_pattern(pattern)


def test_a_pattern_is_bounded() -> None:
    parse_pattern("a" * PATTERN_CHARS_MAX)
    with pytest.raises(ValueError, match="at most 256"):
        parse_pattern("a" * (PATTERN_CHARS_MAX + 1))


def test_patterns_follow_each_other() -> None:
    pattern = parse_pattern("g.") + literal_pattern("@@") + parse_pattern("s")
    assert pattern.matches("g1@@xsx")
    assert not pattern.matches("s@@g1")


def test_many_gaps_take_one_pass() -> None:
    assert not parse_pattern(".*a" * 80 + "b").matches("a" * 500)


@given(
    st.text("ab.*", max_size=8).filter(lambda text: not re.search(r"(?<!\.)\*|\*\*", text)), st.text("ab", max_size=12)
)
def test_it_finds_what_the_regular_expression_finds(pattern: str, text: str) -> None:
    assert parse_pattern(pattern).matches(text) is (re.search(pattern, text) is not None)
