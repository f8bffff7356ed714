"""Datums of peers in groups, each of which becomes durable together: one wait for the disk, not one for each."""

from collections.abc import Callable, Iterable, Iterator

from distro.errors import CodecError
from distro.paced import STEP_STORED, paced, parts_of
from distro.ports import DistroStore
from distro.types import Datum


def take_in_groups(
    store: DistroStore, datums: Iterable[Datum], take: Callable[[Datum], None]
) -> Iterator[tuple[list[str], str]]:
    """Let ``take`` store each datum, with rests between groups.

    Yields:
        The keys of each group that the disk did not take, and the reason: nothing of it is stored.
    """
    for part in parts_of(paced(datums, STEP_STORED), STEP_STORED):
        try:
            with store.grouped():
                for datum in part:
                    take(datum)
        except CodecError as error:
            yield [one.key for one in part], str(error)
