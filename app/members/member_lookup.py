"""MemberLookup: the thread that follows the member list, wherever it comes from."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from app.config.lookup_settings import FILE
from app.config.settings_keys import SettingError
from app.members.last_list import LastList
from app.members.member_sources import MemberSource, NoListError
from app.members.own_entry import OwnEntry

LOG = logging.getLogger(__name__)
FIRST_RETRY_S = 1.0
"""The time between two looks while no list is known at all."""
END_S = 0.5
"""How long a stopping node waits for the end of a look."""
Take = Callable[[tuple[str, ...]], None]
LOOKS, LOOKS_OF_MOST = 2, 4
"""The number of consecutive looks that must miss a member before it is dropped; the second applies if more than half of
the members are missing at once. A file may be seen half written, and an answer of a name service may be cut short."""


class ListCheck:
    """Compares the result of each look with the list in use: new members count at once, others end once looks agree.

    Not thread-safe. It holds only the members of that list.
    """

    def __init__(self, members: tuple[str, ...], self_address: str) -> None:
        self.members = members
        """The list in use."""
        self._self_address = self_address
        self._missed: dict[str, int] = {}
        """The number of consecutive looks that missed a member, by member."""

    @property
    def held(self) -> int:
        """The number of members that the last look missed, and that stay until further looks agree."""
        return len(self._missed)

    def offer(self, found: tuple[str, ...]) -> bool:
        """Apply the result of a look to ``members``, as far as it is trusted. Return whether that changed them.

        ``found``: includes this node. Do not offer the result of a look that found nothing.
        """
        others = [one for one in self.members if one != self._self_address]
        missed = [one for one in others if one not in found]
        counts = {one: self._missed.get(one, 0) + 1 for one in missed}
        needed = LOOKS_OF_MOST if 2 * len(missed) > len(others) else LOOKS
        self._missed = {one: count for one, count in counts.items() if count < needed}
        wanted = (*found, *self._missed)
        if set(wanted) == set(self.members):
            return False
        self.members = wanted
        return True


@dataclass(slots=True)
class LookupStats:
    """Counts of the looks at the member list since the start. Written under the lock of the look-up."""

    member_lists_failed: int = 0
    """Looks that found no usable list. The list in use stays."""
    member_lists_taken: int = 0
    """Lists that differed from the one in use, and replaced it."""
    member_lookup_failing: int = 0
    """The number of consecutive looks that failed, up to now."""
    members_held: int = 0
    """Members that the last look missed, and that stay until further looks agree."""


class MemberLookup:
    """Follows one source at a time. ``start`` and ``close`` once each; ``switch`` and ``look`` from any thread."""

    def __init__(
        self,
        kind: str,
        make_source: Callable[[str], MemberSource],
        members: tuple[str, ...],
        own: OwnEntry,
        self_address: str,
        check: Callable[[tuple[str, ...]], None],
        last: LastList | None = None,
    ) -> None:
        """``members``: the list at the start, empty if none is known.

        ``check`` raises SettingError for a list that this node may not use; ``last`` saves lists for a later start.
        """
        self.kind = kind
        self.stats = LookupStats()
        self._make_source = make_source
        self._source = make_source(kind)
        self._own = own
        self._self_address = self_address
        self._check = check
        self._last = last
        self._kept: tuple[str, ...] = ()
        """The list that this run saved in ``last``."""
        self._list = ListCheck(members, self_address)
        self._take: Take = lambda _members: None
        self._lock = threading.Lock()
        """Held while a list is judged and published, never during a look."""
        self._end = threading.Event()
        self._failure = ""
        """Why the last look failed; empty if it succeeded."""
        self._thread = threading.Thread(target=self._run, name="member-lookup", daemon=True)

    @property
    def is_known(self) -> bool:
        """Return whether there is a list, from a look, the settings or an earlier run."""
        return bool(self._list.members)

    @property
    def failure(self) -> str:
        """Return why the last look failed; empty if it succeeded. For any thread."""
        return self._failure

    def start(self, take: Take) -> None:
        """Begin to look. From now on pass each changed list to ``take``, and the current one at once if it is known."""
        with self._lock:
            self._take = take
            if self.is_known:
                take(self._list.members)
        self._thread.start()

    def close(self) -> None:
        """Publish no further list, and end the thread.

        Wait for a running look only ``END_S``: a look at a name may block.
        """
        with self._lock:
            self._end.set()
        self._source.close()
        if self._thread.ident is not None:
            self._thread.join(END_S)

    def _run(self) -> None:
        while not self._end.wait(self._source.interval_s if self.is_known else FIRST_RETRY_S):
            try:
                self.look()
            except Exception:
                LOG.exception("reading the member list failed unexpectedly")

    def look(self) -> bool:
        """Look once. Return whether a list was found; a look without a list changes nothing."""
        source = self._source
        try:
            members = self._read(self.kind, source)
            if members is None:
                return False
        except (NoListError, SettingError) as error:
            self._failed(source, str(error))
            return False
        with self._lock:
            if source is self._source and not self._end.is_set():
                self._found(members)
        return True

    def _read(self, kind: str, source: MemberSource) -> tuple[str, ...] | None:
        """Return the list of a source, with this node; None if the source is to be read again first.

        Raises:
            NoListError: it has no list, or that of another cluster, as a hijacked name or a misconfigured server does.
            SettingError: this node may not use the list.
        """
        if (found := source.read()) is None:
            return None
        members, is_listed = self._own.put_into(found)
        others = set(self._list.members) - {self._self_address}
        if kind != FILE and not is_listed and others and not others & set(members):
            raise NoListError(f"{', '.join(found)}: names neither this node nor any member known to it")
        self._check(members)
        return members

    def _failed(self, source: MemberSource, reason: str) -> None:
        with self._lock:
            if source is not self._source or self._end.is_set():
                return
            self.stats.member_lists_failed += 1
            self.stats.member_lookup_failing += 1
            if reason != self._failure:
                stays = "the list stays as it is" if self.is_known else "this node waits for a first list"
                LOG.warning("no member list: %s; %s", reason, stays)
            self._failure = reason

    def _found(self, members: tuple[str, ...]) -> None:
        if self._failure:
            LOG.warning("the member list is found again")
        self._failure, self.stats.member_lookup_failing = "", 0
        before, is_changed = self._list.members, self._list.offer(members)
        self.stats.members_held = self._list.held
        now = self._list.members
        if self._last is not None and self.kind != FILE and now != self._kept:
            self._last.write(now)
            self._kept = now
        if not is_changed:
            return
        came, left = sorted(set(now) - set(before)), sorted(set(before) - set(now))
        LOG.info("the member list changed: added %s, removed %s", ", ".join(came) or "none", ", ".join(left) or "none")
        self.stats.member_lists_taken += 1
        self._take(now)

    def switch(self, kind: str) -> None:
        """Follow another source from now on, if it gives a list. Blocks for its first answer.

        Members that are missing from that list are dropped when further looks agree. After a restart the setting
        decides again. Source: Nacos 1.4.1 LookupFactory.switchLookup, which does nothing for the kind that is in use.

        Raises:
            NoListError: the source gives no list, or is not set up; nothing has changed.
        """
        if kind == self.kind:
            return
        source = self._make_source(kind)
        try:
            members = self._read(kind, source)
            if members is None:
                raise NoListError("the list is being changed, please try again")
        except (NoListError, SettingError) as error:
            source.close()
            raise NoListError(str(error)) from None
        with self._lock:
            before, self._source, self.kind = self._source, source, kind
            if not self._end.is_set():
                self._found(members)
        before.close()
        LOG.warning("the member list comes from %s from now on, until the next start", kind)
