"""R10: which versions from outside count. One that is accepted must leave room for those that members give after it."""

from collections.abc import Callable

from distro.model.errors import CodecError
from distro.model.ports import Components
from distro.model.types import NO_VERSION, VERSION_NUMBER_MAX, Datum, Version

EPOCH_HEAD_ROOM = 2**20
"""How far the epoch of a received version may be above all known here: each claim by a member adds one."""
ACCEPTED_MAX = VERSION_NUMBER_MAX - 2**32
"""The highest epoch and counter that are accepted at all, so that each has successors that every member can read.

Of a snapshot it is the only bound: a member that has just started knows no epoch to compare with.
"""


class VersionCheck:
    """Checks the version of each datum before it is resolved. Thread-safe."""

    def __init__(self, own_writer: str, components: Components, is_known_writer: Callable[[str], bool]) -> None:
        """``is_known_writer``: whether a writer is a run of a member that is listed, or was until lately."""
        self._own_writer = own_writer
        self._components = components
        self._is_known_writer = is_known_writer
        self._highest_epoch: int | None = None
        """Of all versions stored and accepted; None until the first check."""

    def check(self, resource_type: str, datum: Datum, *, loading: bool = False) -> None:
        """Check the version of a datum; ``loading``: the datum is of a snapshot that this member asked for.

        Raises:
            CodecError: the epoch is too high, the writer is no member, or is this run, which never gave this version.
        """
        version = datum.version
        if version == NO_VERSION:  # from real Nacos, which has none (R8)
            return
        if version.writer == self._own_writer:
            store = self._components[resource_type].store
            # What this run gave to a key is stored here, but for a key that was forgotten.
            stored = store.version(datum.key)
            if version > (stored if stored is not None else store.highest_own()):
                raise CodecError(f"field 'version' is of this run, which did not give it: {version.to_text()}")
        elif not self._is_known_writer(version.writer):
            raise CodecError(f"field 'version' is of no member: {version.to_text()}")
        limit = ACCEPTED_MAX if loading else min(self._highest() + EPOCH_HEAD_ROOM, ACCEPTED_MAX)
        if version.epoch > limit or version.counter > ACCEPTED_MAX:
            raise CodecError(f"field 'version' is too far above those known here: {version.to_text()}")

    def accept(self, version: Version) -> None:
        """Note a version that was stored: later ones may be above it."""
        if self._highest_epoch is not None:
            self._highest_epoch = max(self._highest_epoch, version.epoch)

    def _highest(self) -> int:
        if self._highest_epoch is None:
            stored = [one.epoch for part in self._components.values() for one in part.store.versions().values()]
            self._highest_epoch = max(stored, default=0)
        return self._highest_epoch
