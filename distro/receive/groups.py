"""Groups of peers' datums, each of which becomes durable together: one wait for the disk instead of one for each."""

from collections.abc import Callable, Iterable, Iterator

from distro.model.errors import CodecError
from distro.model.stores import DistroStore
from distro.model.types import Datum
from distro.timing.paced import STEP_STORED, paced, parts_of

OnceStored = list[Callable[[], None]]
"""Functions to call once a group is stored: they read the store, and would find the former state before that."""


def take_in_groups(
    store: DistroStore, datums: Iterable[Datum], take: Callable[[Datum, OnceStored], None]
) -> Iterator[tuple[list[str], str]]:
    """Let ``take`` store each datum, with pauses between groups. The functions that it adds are called after its group.

    Yields:
        The keys of each group that the disk did not take, and the reason: none of the group is stored.
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
