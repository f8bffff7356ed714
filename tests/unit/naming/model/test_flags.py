"""Booleans as texts."""

import pytest

from app.naming.model.json_fields import exact_bool, flag_text, lenient_bool, strict_bool


@pytest.mark.parametrize("text", ["true", "YES", "On", "y", "T"])
def test_lenient_words_that_are_true(text: str) -> None:
    assert lenient_bool(text)


@pytest.mark.parametrize("text", ["1", "off", "x", ""])
def test_lenient_words_that_are_false(text: str) -> None:
    assert not lenient_bool(text)


def test_strict_booleans_know_one_word() -> None:
    assert [strict_bool(text) for text in ("true", "TRUE", "yes", "1")] == [True, True, False, False]


def test_exact_booleans_know_two() -> None:
    assert (exact_bool("True"), exact_bool("FALSE")) == (True, False)
    for text in ("", "1", "yes"):
        with pytest.raises(ValueError, match="no word"):
            exact_bool(text)


@pytest.mark.parametrize("value", [True, False])
def test_what_is_written_is_read(value: bool) -> None:
    text = flag_text(value)
    assert exact_bool(text) is strict_bool(text) is lenient_bool(text) is value
