"""The length of a request's walk through the code, bounded: whoever changes a hot path has to read all of it."""

from collections.abc import Mapping

import pytest

from scripts.docs.registration_way import read_recorded, way_of
from scripts.walk import KINDS, shortest_walks
from tests.support.walk import Figures, Walk

BOUNDS = {
    "register": Figures(calls=99, files=28, returns=30),
    "put": Figures(calls=80, files=27, returns=26),
    "delete": Figures(calls=70, files=27, returns=18),
    "beat": Figures(calls=29, files=14, returns=7),
    "list": Figures(calls=100, files=25, returns=32),
    "rpc-register": Figures(calls=132, files=24, returns=43),
    "rpc-query": Figures(calls=108, files=26, returns=36),
    "rpc-health": Figures(calls=37, files=9, returns=11),
    "from-peer": Figures(calls=148, files=35, returns=58),
    "forwarded": Figures(calls=175, files=39, returns=67),
}
"""The figures of today, without slack: the shortest of some walks is the same in each run. Lower a bound with the code
that makes its walk shorter, and raise one only for what the walk gains. The walk of rpc-register has two lengths, by
how its bytes arrive: the longer one stands here."""


@pytest.fixture(scope="module")
def walks() -> Mapping[str, Walk]:
    """Each kind's shortest walk."""
    return dict(shortest_walks(list(KINDS)))


def test_each_kind_has_a_bound() -> None:
    assert BOUNDS.keys() == KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_is_no_longer_than_its_bound(walks: Mapping[str, Walk], kind: str) -> None:
    figures, bound = walks[kind].figures, BOUNDS[kind]
    over = [name for name, found, most in zip(Figures._fields, figures, bound, strict=True) if found > most]
    assert not over, (
        f"{kind} ({KINDS[kind].says}) has too many {' and '.join(over)}. Found {figures}; allowed {bound}. "
        f"To see each call: python -m scripts.walk {kind}"
    )


def test_without_a_link_no_walk_enters_the_code_of_links(walks: Mapping[str, Walk]) -> None:
    entered = {(kind, step.file) for kind, walk in walks.items() for step in walk.steps if "/links/" in step.file}
    assert entered == set()


def test_the_picture_shows_the_way_of_these_walks(walks: Mapping[str, Walk]) -> None:
    assert way_of(walks) == list(read_recorded()), "record the way again: python -m scripts.docs.picture"
