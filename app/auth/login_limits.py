"""Limits of logins: after too many wrong passwords for a user, or from an address, further attempts wait.

No user is locked out: after its wait the right password is accepted, from anywhere.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import NamedTuple

from app.auth.refusals import TooManyLogins
from app.naming.model.ip_addresses import caller_key
from app.naming.records.user_records import NAME_CHARS_MAX

WINDOW_MS = 60_000
OF_USER_MAX, OF_ADDRESS_MAX = 20, 60
"""The most wrong passwords in a window, beyond which attempts wait."""
CLEAN_WINDOW_MS, CLEAN_MAX = 600_000, 3
"""Attempts from an address with fewer wrong passwords for that user wait in a separate lane.

An attacker with many addresses soon has guessed from each of them, and leaves that lane to users at new addresses.
"""
TRUSTED_MS = 86_400_000
"""How long an address from which a user logged in is exempt from the user's limit."""
ENTRIES_MAX = 10_000
"""The most entries of each table. The one unused for longest goes first."""
WAITING_MAX = 1_024
"""The most attempts that wait, of all users."""
LATER_S = 2
"""When a caller that found no room to wait may try again."""


class _Lane(NamedTuple):
    """Room to wait in: the number of places, the wait of the first attempt, and the time between two attempts."""

    most: int
    wait_ms: int
    apart_ms: int


CLEAN, DIRTY, OF_ADDRESS = _Lane(32, 1_000, 100), _Lane(8, 2_000, 500), _Lane(4, 1_000, 1_000)
"""The first two belong to a user, and bound the guesses at one user to 12 a second at a member.

Two of these 12 may come from addresses that guessed before. The third lane bounds the guesses from one address to one a
second.
"""
ONE = _Lane(1, 0, 0)
"""The lane of a user and an address that guessed before."""
BUSY = _Lane(64, 500, 10)
"""The lane of all attempts that found too many others being checked."""
BUSY_TIMES_MAX = 10


@dataclass(slots=True)
class Attempt:
    """One attempt. It counts as wrong until ``LoginLimits.right`` or ``.withdraw``."""

    user: str
    address: str
    wait_ms: int = 0
    """How long it waits before its password is checked."""
    places: tuple[tuple[_Lane, str], ...] = ()
    """The places in which it waits."""
    busy_times: int = 0


@dataclass(slots=True)
class LoginWait:
    """Keeps the attempt of a call while it waits. A caller that passes one to ``log_in`` makes the call again."""

    attempt: Attempt | None = None


class LoginPutOff(Exception):
    """An attempt has to wait. The caller makes the same call again, with the same ``LoginWait``, after ``after_ms``."""

    def __init__(self, after_ms: int) -> None:
        super().__init__(f"the login waits for {after_ms} ms")
        self.after_ms = after_ms


class _Counts:
    """Wrong passwords in the current window, by key."""

    def __init__(self, window_ms: int = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """The start of the window (ms), and the count."""

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: str, now_ms: int) -> int:
        """Return the count of a key."""
        begin_ms, count = self._counts.get(key, (now_ms, 0))
        return count if now_ms - begin_ms < self._window_ms else 0

    def add(self, key: str, now_ms: int, count: int) -> None:
        """Count attempts, or take them back."""
        begin_ms, known = self._counts.get(key, (now_ms, 0))
        if now_ms - begin_ms >= self._window_ms:
            begin_ms, known = now_ms, 0
        self._counts[key] = begin_ms, max(known + count, 0)
        self._counts.move_to_end(key)
        if len(self._counts) > ENTRIES_MAX:
            self._counts.popitem(last=False)


class LoginLimits:
    """Counts login attempts, each before its password is checked, and takes back those that were right.

    Thread-safe. Each member counts for itself, and forgets when its process ends. Unknown users' names count like
    others.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._of_user, self._of_address, self._of_pair = _Counts(), _Counts(), _Counts(CLEAN_WINDOW_MS)
        self._trusted: OrderedDict[str, int] = OrderedDict()
        """When a user last logged in from an address, by ``_pair``."""
        self._lanes: dict[tuple[_Lane, str], tuple[int, int]] = {}
        """The lanes in which attempts wait: how many, and until when the last of them waits."""
        self._waiting = 0

    def allows(self, user: str, ip: str) -> bool:
        """Return whether an attempt would be checked now. Counts nothing."""
        with self._lock:
            return not self._places(Attempt(user[: NAME_CHARS_MAX + 1], _network(ip)), self._now_ms())

    def begin(self, user: str, ip: str) -> Attempt:
        """Count an attempt, and take its place in a lane if it has to wait.

        Raises:
            TooManyLogins: there is no room to wait.
        """
        attempt = Attempt(user[: NAME_CHARS_MAX + 1], _network(ip))
        with self._lock:
            now_ms = self._now_ms()
            self._take(attempt, self._places(attempt, now_ms), now_ms)
            self._add(attempt, now_ms, 1)
        return attempt

    def put_off(self, attempt: Attempt) -> bool:
        """Take a place for an attempt that found too many others being checked. Return False if there is none."""
        with self._lock:
            self._leave(attempt)
            attempt.busy_times += 1
            if attempt.busy_times > BUSY_TIMES_MAX:
                return False
            try:
                self._take(attempt, ((BUSY, ""),), self._now_ms())
            except TooManyLogins:
                return False
            return True

    def leave(self, attempt: Attempt) -> None:
        """Note that an attempt no longer waits."""
        with self._lock:
            self._leave(attempt)

    def withdraw(self, attempt: Attempt) -> None:
        """Take back an attempt whose password was not checked."""
        with self._lock:
            self._leave(attempt)
            self._add(attempt, self._now_ms(), -1)

    def right(self, attempt: Attempt) -> None:
        """Take back an attempt whose password was right, and trust its address for this user."""
        with self._lock:
            now_ms, pair = self._now_ms(), _pair(attempt)
            self._add(attempt, now_ms, -1)
            self._trusted[pair] = now_ms
            self._trusted.move_to_end(pair)
            if len(self._trusted) > ENTRIES_MAX:
                self._trusted.popitem(last=False)

    # The callers of these hold the lock.

    def _add(self, attempt: Attempt, now_ms: int, count: int) -> None:
        self._of_user.add(attempt.user, now_ms, count)
        self._of_address.add(attempt.address, now_ms, count)
        self._of_pair.add(_pair(attempt), now_ms, count)

    def _places(self, attempt: Attempt, now_ms: int) -> tuple[tuple[_Lane, str], ...]:
        """Return the places in which an attempt has to wait; nearly always none."""
        pair = _pair(attempt)
        wrong = self._of_pair.count(pair, now_ms)
        if wrong < OF_USER_MAX and now_ms - self._trusted.get(pair, now_ms - TRUSTED_MS) < TRUSTED_MS:
            return ()
        places: list[tuple[_Lane, str]] = []
        if self._of_user.count(attempt.user, now_ms) >= OF_USER_MAX:
            places += [(CLEAN, attempt.user)] if wrong < CLEAN_MAX else [(DIRTY, attempt.user), (ONE, pair)]
        if self._of_address.count(attempt.address, now_ms) >= OF_ADDRESS_MAX:
            places.append((OF_ADDRESS, attempt.address))
        return tuple(places)

    def _take(self, attempt: Attempt, places: tuple[tuple[_Lane, str], ...], now_ms: int) -> None:
        if not places:
            return
        known = [self._lanes.get(place, (0, 0)) for place in places]
        if self._waiting >= WAITING_MAX or any(
            count >= place[0].most for place, (count, _) in zip(places, known, strict=True)
        ):
            raise TooManyLogins("too many wrong passwords, please try again later", LATER_S)
        due_ms = [
            max(now_ms + lane.wait_ms, last_ms + lane.apart_ms)
            for (lane, _), (_, last_ms) in zip(places, known, strict=True)
        ]
        for place, (count, _), at_ms in zip(places, known, due_ms, strict=True):
            self._lanes[place] = count + 1, at_ms
        self._waiting += 1
        attempt.places, attempt.wait_ms = places, max(due_ms) - now_ms

    def _leave(self, attempt: Attempt) -> None:
        if not attempt.places:
            return
        for place in attempt.places:
            count, last_ms = self._lanes[place]
            if count > 1:
                self._lanes[place] = count - 1, last_ms
            else:
                del self._lanes[place]
        attempt.places = ()
        self._waiting -= 1


def _pair(attempt: Attempt) -> str:
    return f"{attempt.address}\n{attempt.user}"  # no address contains a line feed


_network = lru_cache(ENTRIES_MAX)(caller_key)
"""Returns the address that counts as one caller."""
