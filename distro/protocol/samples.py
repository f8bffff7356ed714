"""Samples of contents: equal versions do not prove equal contents, so verify rounds compare those of some keys, too.

For the keys that it wrote in some leaves, which are nearly always those that it owns, a member sends the XOR of 64 bits
for each content. Where the sums differ, it sends those of the leaves, and for a leaf that differs those of the keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from math import ceil
from operator import xor
from typing import Any

from distro.model.digest import LEAVES
from distro.model.ports import Component
from distro.timing.sliced import rest

SLACK = 1.05
"""Rounds come a little later than set."""
STEP_CONTENTS = 100
"""Between two rests: half a millisecond of work."""
SAMPLED_KEYS_MAX = 200
"""Keys in the leaves of one round, of all writers: a round costs the same however many there are. All of 100,000
keys are compared within 40 minutes, one round each 5 s."""


def sample_after(at: int, interval_ms: int, all_ms: int, keys: int) -> range:
    """The leaves from ``at`` on of a round, one at least.

    Rounds come each ``interval_ms``, and all together may take ``all_ms``, or longer where ``keys``, which is how many
    keys there are, would be more than ``SAMPLED_KEYS_MAX`` in a round.
    """
    in_time = ceil(LEAVES * SLACK * interval_ms / all_ms)
    bounded = LEAVES * SAMPLED_KEYS_MAX // max(keys, SAMPLED_KEYS_MAX)
    return range(at, min(at + max(min(in_time, bounded), 1), LEAVES))


def sums_of(component: Component, writer: str, leaves: Iterable[int]) -> dict[int, int]:
    """The sum of the contents of the keys that a member wrote, in each of these leaves.

    ``writer``: the member's address; states of all its runs count.
    """
    return {leaf: whole(contents) for leaf, contents in _contents(component, writer, leaves)}


def contents_of(component: Component, writer: str, leaves: Iterable[int]) -> dict[str, int]:
    """The 64 bits of the content of each key that a member wrote, in these leaves."""
    return {key: content for _, contents in _contents(component, writer, leaves) for key, content in contents.items()}


def whole(sums: Mapping[Any, int]) -> int:
    """The sum of these sums, or contents, together."""
    return reduce(xor, sums.values(), 0)


def _contents(component: Component, writer: str, leaves: Iterable[int]) -> Iterator[tuple[int, dict[str, int]]]:
    """Each leaf with the content of each key there that a member wrote; with rests."""
    prefix, content_of, digest, left = f"{writer}~", component.store.content, component.digest, STEP_CONTENTS
    for leaf in leaves:
        keys = digest.written_in(leaf, prefix)
        if not keys:
            yield leaf, {}
            continue
        left -= len(keys)
        if left < 0:
            rest()
            left = STEP_CONTENTS
        found = [(key, content_of(key)) for key in keys]
        yield leaf, {key: one[1] for key, one in found if one is not None and one[0].writer.startswith(prefix)}
