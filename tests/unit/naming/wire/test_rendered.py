"""RenderedLists: which list is found, which is kept, and which goes first."""

from typing import NamedTuple

import pytest

from app.naming.model.model import ServiceView
from app.naming.wire.rendered import NO_CLUSTER, SERVICE_PART, VARIANTS_MAX, RenderedLists, known_clusters
from distro.model.types import NO_VERSION

SIZE = 100


class Variant(NamedTuple):
    clusters: str = ""
    more: str = ""

    def of_clusters(self, clusters: str) -> "Variant":
        return Variant(clusters, self.more)


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


def view(name: str = "a", revision: int = 1, clusters: tuple[str, ...] = ("x", "y")) -> ServiceView:
    return ServiceView("public", name, revision, NO_VERSION, (), clusters)


def keep(lists: Lists, one: Bytes, name: str = "a", clusters: str = "", more: str = "") -> None:
    lists.keep(view(name), Variant(clusters, more), one)


def sizes(lists: Lists) -> int:
    return sum(len(one) for kept in lists._kept.values() for _, one in kept)


def test_a_list_is_found_for_its_service_variant_and_revision_alone(lists: Lists) -> None:
    one = Bytes()
    keep(lists, one, clusters="x")
    assert lists.find(view(), Variant("x")) is one
    assert lists.find(view(), Variant()) is None
    assert lists.find(view(), Variant("x", "more")) is None
    assert lists.find(view("b"), Variant("x")) is None
    assert lists.find(view(revision=2), Variant("x")) is None


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        ("", ""),
        (",,", ""),
        ("x", "x"),
        ("y,x", ""),
        ("none", NO_CLUSTER),
        ("none,y", "y"),
        ("y,y,,none,other", "y"),
        ("x,none,z", "x,z"),
        ("z,x", "x,z"),
        ("p,q", NO_CLUSTER),
    ],
)
def test_queries_are_the_same_when_they_show_the_same_clusters(asked: str, known: str) -> None:
    clusters = ("x", "y") if "z" not in asked else ("x", "y", "z")
    assert known_clusters(view(clusters=clusters), asked) == known


def test_a_cluster_with_a_comma_in_its_name_is_no_two_clusters() -> None:
    assert known_clusters(view(clusters=("p,q",)), "p,q") == NO_CLUSTER
    assert known_clusters(view(clusters=()), "p") == NO_CLUSTER


def test_the_variants_of_one_service_have_a_bound_in_bytes_and_number() -> None:
    lists = Lists(SERVICE_PART * 3 * SIZE, list_bytes_max=10 * SIZE)
    for number in range(10):
        keep(lists, Bytes(), more=str(number))
    assert [lists.find(view(), Variant("", str(number))) is not None for number in range(10)] == [False] * 7 + [
        True
    ] * 3
    keep(lists, Bytes(size=9 * SIZE), more="large")
    assert lists.find(view(), Variant("", "large")) is not None, "one alone may be larger"
    assert lists.kept_bytes == sizes(lists) == 9 * SIZE
    small = Lists(1 << 20, list_bytes_max=1 << 20)
    for number in range(VARIANTS_MAX + 5):
        keep(small, Bytes(), more=str(number))
    assert small.kept_bytes == sizes(small) == VARIANTS_MAX * SIZE


def test_a_newer_state_takes_the_place_of_all_older_lists_of_its_service() -> None:
    lists = Lists(100 * SIZE, list_bytes_max=10 * SIZE)
    for number in range(5):
        keep(lists, Bytes(), more=str(number))
    keep(lists, Bytes(2))
    assert lists.kept_bytes == sizes(lists) == SIZE


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


def test_the_lists_of_a_service_that_is_gone_are_dropped(lists: Lists) -> None:
    keep(lists, Bytes())
    lists.drop("public", "a")
    lists.drop("public", "b")
    assert lists.find(view(), Variant()) is None
    assert lists.kept_bytes == sizes(lists) == 0
