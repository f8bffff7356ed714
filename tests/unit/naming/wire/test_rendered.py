"""RenderedLists: which list is found, which is kept, and which goes first."""

from typing import NamedTuple

import pytest

from app.naming.model.model import ServiceView
from app.naming.wire.rendered import ECHOED_CHARS_MAX, RenderedLists
from distro.model.types import NO_VERSION

SIZE = 100


class Variant(NamedTuple):
    text: str = ""

    @property
    def echoed_chars(self) -> int:
        return len(self.text)


class Bytes:
    def __init__(self, revision: int = 1, size: int = SIZE) -> None:
        self.revision = revision
        self._size = size

    def __len__(self) -> int:
        return self._size


Lists = RenderedLists[Variant, Bytes]


@pytest.fixture
def lists() -> Lists:
    return Lists(3 * SIZE, list_bytes_max=2 * SIZE)


def view(name: str = "a", revision: int = 1) -> ServiceView:
    return ServiceView("public", name, revision, NO_VERSION, (), ())


def keep(lists: Lists, one: Bytes | None, name: str = "a", text: str = "") -> None:
    lists.keep("public", name, Variant(text), one)


def sizes(lists: Lists) -> int:
    return sum(map(len, lists._kept.values()))


def test_a_list_is_found_for_its_service_variant_and_revision_alone(lists: Lists) -> None:
    one = Bytes()
    keep(lists, one, text="x")
    assert lists.find(view(), Variant("x")) is one
    assert lists.find(view(), Variant()) is None
    assert lists.find(view("b"), Variant("x")) is None
    assert lists.find(view(revision=2), Variant("x")) is None


def test_the_oldest_goes_first_and_what_is_kept_anew_is_the_youngest(lists: Lists) -> None:
    for name in "abc":
        keep(lists, Bytes(), name)
    keep(lists, Bytes(2), "a")
    keep(lists, Bytes(), "d")
    assert [lists.find(view(name, 1 + (name == "a")), Variant()) is not None for name in "abcd"] == [
        True,
        False,
        True,
        True,
    ]
    assert lists.kept_bytes == sizes(lists) == 3 * SIZE


def test_a_list_that_is_too_large_is_not_kept_and_its_older_state_is_dropped(lists: Lists) -> None:
    keep(lists, Bytes())
    keep(lists, Bytes(), "b")
    keep(lists, Bytes(2, 2 * SIZE + 1))
    assert lists.find(view(), Variant()) is lists.find(view(revision=2), Variant()) is None
    assert lists.kept_bytes == sizes(lists) == SIZE
    keep(lists, Bytes(2, 2 * SIZE))
    assert lists.find(view(revision=2), Variant()) is not None, "so large it may be"


def test_long_texts_to_echo_are_not_kept(lists: Lists) -> None:
    for length in (ECHOED_CHARS_MAX, ECHOED_CHARS_MAX + 1):
        keep(lists, Bytes(), text="x" * length)
        found = lists.find(view(), Variant("x" * length))
        assert (found is not None) == (length == ECHOED_CHARS_MAX)


def test_the_list_of_a_service_that_is_gone_is_dropped(lists: Lists) -> None:
    keep(lists, Bytes())
    keep(lists, None)
    keep(lists, None, "b")
    assert lists.find(view(), Variant()) is None
    assert lists.kept_bytes == sizes(lists) == 0
