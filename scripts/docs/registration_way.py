"""The path of a registration through the folders of the code: recorded on a running node, and read for the picture.

A path consists of the calls on the stack when the owner has stored the instance and published the change, and when
the other member stores the list. Of consecutive calls in one folder only the first is on the path.
``tests/cluster/test_walks.py`` compares the recorded path with the walks of each test run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.walk import Step, Walk

RECORDED = Path(__file__).with_name("registration_way.txt")
ENDS = {"register": ("LocalWrites.register", "on_instances.<locals>.handle"), "from-peer": ("ListReplication.apply",)}
"""The functions at the ends of the path, in order, by kind of walk."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A function on the path. ``function``: ``module:Class.method`` or ``module:function``."""

    walk: str
    function: str


def way_of(walks: Mapping[str, Walk]) -> list[Passed]:
    """Return the path through these walks, each function once.

    Raises:
        LookupError: a walk does not reach one of its ends.
    """
    found: dict[str, Passed] = {}
    for walk, ends in ENDS.items():
        for end in ends:
            folder = ""
            for call in _calls_around(walks[walk].steps, end):
                if (here := call.file.rpartition("/")[0]) != folder:
                    function = f"{call.file.removesuffix('.py').replace('/', '.')}:{call.function}"
                    found.setdefault(function, Passed(walk, function))
                folder = here
    return list(found.values())


def _calls_around(steps: Sequence[Step], function: str) -> list[Step]:
    """Return the stack at the first call of a function, the outermost call first, including that call."""
    at = next((number for number, step in enumerate(steps) if step.function == function), None)
    if at is None:
        raise LookupError(f"no call of {function} in the walk: mend ENDS in {Path(__file__).name}")
    around = [steps[at]]
    for step in reversed(steps[:at]):
        if step.depth < around[-1].depth:
            around.append(step)
    return around[::-1]


def record() -> None:
    """Start nodes, make a registration, and write its path."""
    from scripts.walk import shortest_walks

    way = way_of(dict(shortest_walks(list(ENDS))))
    RECORDED.write_text("".join(f"{one.walk} {one.function}\n" for one in way))


def read_recorded() -> Iterator[Passed]:
    """Yield the functions of the recorded path."""
    for line in RECORDED.read_text().splitlines():
        walk, _, function = line.partition(" ")
        yield Passed(walk, function)
