"""Datums of peers in groups, each of which becomes durable together: one wait for the disk, not one for each."""

from collections.abc import Callable, Iterable, Iterator

from distro.model.errors import CodecError
from distro.model.ports import DistroStore
from distro.model.types import Datum
from distro.timing.paced import STEP_STORED, paced, parts_of

OnceStored = list[Callable[[], None]]
"""What is to be told once a group is stored: whoever is told looks into the store, and would find what was before."""


def take_in_groups(
    store: DistroStore, datums: Iterable[Datum], take: Callable[[Datum, OnceStored], None]
) -> Iterator[tuple[list[str], str]]:
    """Let ``take`` store each datum, with rests between groups; what it adds to the list is called after its group.

    Yields:
        The keys of each group that the disk did not take, and the reason: nothing of it is stored.
    """
    for part in parts_of(paced(datums, STEP_STORED), STEP_STORED):
        once_stored: OnceStored = []
        try:
            with store.grouped([datum.key for datum in part]):
                for datum in part:
                    take(datum, once_stored)
        except CodecError as error:
            yield [one.key for one in part], str(error)
        else:
            for tell in once_stored:
                tell()
