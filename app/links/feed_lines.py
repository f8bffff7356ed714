"""The lines that one follower gets: first a greeting, then each change of a service that it follows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from app.config.link_settings import LinkFilter
from app.links.feed import Feed, Takes
from app.naming.model.keys import split_name
from distro.members.mapper import distro_hash

SETTLED_MS = 30_000
"""A member that runs for less may not have heard of all that lives: it adds, but its silence about something says
nothing. Source of the time: the delete time-out of an instance without beats."""


EVERY_SERVICE = LinkFilter()


@dataclass(frozen=True, slots=True)
class FollowedPart:
    """The services that one member of the other cluster follows: those that it owns, and that its link chooses."""

    part: int
    of: int
    chosen: LinkFilter = EVERY_SERVICE

    def has(self, full_name: str) -> bool:
        """Return whether the services of this name belong to this part, be they chosen or not."""
        return distro_hash(full_name) % self.of == self.part

    def slice_of(self, full_name: str, slices: int) -> int:
        """Return which of so many comparisons a service of this part belongs to."""
        return distro_hash(full_name) // self.of % slices

    def takes(self, namespace: str, full_name: str) -> bool:
        """Return whether a service is in this part."""
        return self.has(full_name) and self.chosen.takes(namespace, *split_name(full_name))


@dataclass(frozen=True, slots=True)
class Greeting:
    """A member's description of itself for a follower."""

    cluster: str
    member: str
    """The run of the member."""
    up_ms: int
    """How long it serves."""

    def fields(self, feed: Feed, place: int) -> dict[str, Any]:
        """Return the greeting as it travels, with the place in the log from which on changes follow."""
        return {
            "cluster": self.cluster,
            "member": self.member,
            "upMs": self.up_ms,
            "run": feed.run,
            "place": place,
        }


class FeedLines:
    """The LineSource of one follower. ``run`` and ``place``: up to where it has the changes."""

    def __init__(self, feed: Feed, takes: Takes, run: str, place: int, greet: Callable[[], Greeting]) -> None:
        self._feed, self._takes, self._greet = feed, takes, greet
        self._place = place if run == feed.run else -1
        self._wake: Callable[[], None] | None = None
        self._is_greeted = False

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._feed.attach(wake)

    def detach(self) -> None:
        if self._wake is not None:
            self._feed.detach(self._wake)

    def read(self, *, is_idle: bool) -> bytes | None:
        """Return the next lines; None when the follower has to compare, of which the last line told it."""
        if self._place < -1:
            return None
        found = self._feed.since(self._place, self._takes)
        if found is None:
            self._place = -2
            return self._line({"behind": True})
        lines, self._place = found
        if self._wake is not None and (lines or self._feed.has_more):
            self._wake()
        if not self._is_greeted or lines or is_idle:
            lines.append(self._line({}))
        return b"".join(lines)

    def _line(self, more: dict[str, Any]) -> bytes:
        self._is_greeted = True
        return orjson.dumps(self._greet().fields(self._feed, self._place) | more) + b"\n"


def takes_of(part: FollowedPart, may_read: Takes) -> Takes:
    """Return the check whether a follower gets a service: it is in its part, and its user may read it."""
    return partial(_takes, part, may_read)


def _takes(part: FollowedPart, may_read: Takes, namespace: str, full_name: str) -> bool:
    return part.takes(namespace, full_name) and may_read(namespace, full_name)
