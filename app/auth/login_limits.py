"""Limits of logins: a password is not looked at after too many wrong ones, of one user or from one address."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from threading import Lock

WINDOW_MS = 60_000
OF_USER_MAX, OF_ADDRESS_MAX = 20, 60
"""Wrong passwords in a window."""
TRUSTED_MS = 86_400_000
"""An address from which a user logged in stays free of the user's limit for so long: nobody can lock the user out."""
ENTRIES_MAX = 10_000
"""Of each table; the one that was touched longest ago goes first."""
V6_PREFIX = 64
"""Of an IPv6 address: one customer has that many addresses."""


class _Counts:
    """Wrong passwords in the current window, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """The begin of the window (ms), and the count."""

    def wait_ms(self, key: str, now_ms: int) -> int:
        """0 when a further try is allowed; else how long until it is."""
        begin_ms, count = self._counts.get(key, (now_ms, 0))
        left_ms = begin_ms + WINDOW_MS - now_ms
        return left_ms if count >= self._most and left_ms > 0 else 0

    def add(self, key: str, now_ms: int, count: int) -> None:
        """Count tries, or take them back."""
        begin_ms, known = self._counts.get(key, (now_ms, 0))
        if now_ms - begin_ms >= WINDOW_MS:
            begin_ms, known = now_ms, 0
        self._counts[key] = begin_ms, max(known + count, 0)
        self._counts.move_to_end(key)
        if len(self._counts) > ENTRIES_MAX:
            self._counts.popitem(last=False)


class LoginLimits:
    """Counts the tries to log in, each before its password is looked at, and takes back those that were right.

    Thread-safe. Each member counts for itself, and forgets with its process.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = Lock()
        self._of_user, self._of_address = _Counts(OF_USER_MAX), _Counts(OF_ADDRESS_MAX)
        self._trusted: OrderedDict[tuple[str, str], int] = OrderedDict()

    def _wait_ms(self, user: str, address: str, now_ms: int) -> int:
        """How long a caller is to wait before a try; 0 when it may come now. The caller of this holds the lock."""
        wait_ms = self._of_address.wait_ms(address, now_ms)
        if now_ms - self._trusted.get((user, address), now_ms - TRUSTED_MS) >= TRUSTED_MS:
            wait_ms = max(wait_ms, self._of_user.wait_ms(user, now_ms))
        return wait_ms

    def allows(self, user: str, ip: str) -> bool:
        """Whether a try would be allowed now; counts none."""
        with self._lock:
            return not self._wait_ms(user, _network(ip), self._now_ms())

    def begin(self, user: str, ip: str) -> int:
        """Count a try, and return 0; or return how many seconds the caller is to wait first."""
        address, now_ms = _network(ip), self._now_ms()
        with self._lock:
            if wait_ms := self._wait_ms(user, address, now_ms):
                return wait_ms // 1_000 + 1
            self._of_user.add(user, now_ms, 1)
            self._of_address.add(address, now_ms, 1)
            return 0

    def withdraw(self, user: str, ip: str, *, right: bool) -> None:
        """Take a try back: its password was ``right``, or nobody looked at it."""
        address, now_ms = _network(ip), self._now_ms()
        with self._lock:
            self._of_user.add(user, now_ms, -1)
            self._of_address.add(address, now_ms, -1)
            if not right:
                return
            self._trusted[user, address] = now_ms
            self._trusted.move_to_end((user, address))
            if len(self._trusted) > ENTRIES_MAX:
                self._trusted.popitem(last=False)


@lru_cache(ENTRIES_MAX)
def _network(ip: str) -> str:
    """The address that counts as one caller."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return ip
    if address.version == 4:
        return str(address)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or ipaddress.ip_network((address, V6_PREFIX), strict=False))
