"""Passwords: hashed and compared by argon2id, two at a time, on their own threads."""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from threading import BoundedSemaphore, Lock
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.auth.refusals import TooManyLogins
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.user_records import User

PASSWORD_CHARS_MIN, PASSWORD_BYTES_MAX = 8, 256
AT_ONCE = 2
"""The hashes that are computed at a time. Each needs a core for some 30 ms, and 19 MiB."""
WAITING_MAX = 12
"""The most waiting callers. Each occupies a thread of the HTTP frontend."""
WAIT_S = 2.0
REMEMBERED_MAX = 4_096
TIME_COST, MEMORY_KIB, PARALLELISM = 2, 19_456, 1
"""Source: OWASP Password Storage Cheat Sheet, argon2id."""
T = TypeVar("T")


@dataclass(slots=True)
class PasswordStats:
    """Counts since the start."""

    hashes_computed: int = 0
    hashes_refused: int = 0
    """Passwords that were not checked because too many waited."""


class Passwords:
    """Makes and compares hashes. Thread-safe. Each call may block for ``WAIT_S``: not for the event loop.

    A right password is remembered by a keyed hash. So a fleet that logs in after a restart, and calls that carry user
    and password each time, cost one computation for each user.
    """

    def __init__(self) -> None:
        self._hasher = PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM)
        self._places = BoundedSemaphore(AT_ONCE)
        self._lock = Lock()
        self._waiting = 0
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._nobody = self._hasher.hash(secrets.token_hex(16))
        """Compared with the passwords of unknown users, so that the time does not reveal which users exist."""
        self.stats = PasswordStats()

    def hash(self, password: str) -> str:
        """Return the hash of a new password.

        Raises:
            InvalidParam: it is too short or too long.
            TooManyLogins: too many wait.
        """
        check_password(password)
        return self._compute(lambda: self._hasher.hash(password))

    def is_right(self, user: User | None, password: str) -> bool:
        """Return whether this is the user's password. For None return False, after the same time.

        Raises:
            TooManyLogins: too many wait.
        """
        if len(password) > PASSWORD_BYTES_MAX:
            return False
        digest = b"" if user is None else self._digest(user, password)
        if digest in self._right:
            return True
        try:
            self._compute(lambda: self._hasher.verify(self._nobody if user is None else user.password_hash, password))
        except (VerificationError, InvalidHashError):
            return False
        if user is None:
            return False
        with self._lock:
            self._right[digest] = None
            if len(self._right) > REMEMBERED_MAX:
                self._right.popitem(last=False)
        return True

    def is_remembered(self, user: User, password: str) -> bool:
        """Return whether this was recently found to be the user's password. Does not block."""
        return len(password) <= PASSWORD_BYTES_MAX and self._digest(user, password) in self._right

    def _digest(self, user: User, password: str) -> bytes:
        parts = (user.name, user.generation, password)
        text = b"".join(b"%d:%b" % (len(one), one) for one in (part.encode("utf-8", "replace") for part in parts))
        return hmac.digest(self._key, text, sha256)

    def _compute(self, work: Callable[[], T]) -> T:
        """Run the work on a separate thread.

        glibc keeps the 19 MiB for each thread that hashed once. On the callers' threads that added up to half a
        gigabyte. The memory of a thread that has ended goes to the next one.
        """
        with self._place(), ThreadPoolExecutor(1, "password") as one:
            return one.submit(work).result()

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Wait for one of the places for a computation, and leave it when the block ends."""
        with self._lock:
            if self._waiting >= AT_ONCE + WAITING_MAX:
                self.stats.hashes_refused += 1
                raise TooManyLogins("too many logins are under way, please try again", 1)
            self._waiting += 1
        if not self._places.acquire(timeout=WAIT_S):
            self._leave()
            raise TooManyLogins("too many logins are under way, please try again", 1)
        try:
            self.stats.hashes_computed += 1
            yield
        finally:
            self._places.release()
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._waiting -= 1


def check_password(password: str) -> None:
    """Refuse a password that is too short or too long.

    Raises:
        InvalidParam: its text does not contain the password.
    """
    if len(password) < PASSWORD_CHARS_MIN or len(password.encode("utf-8", "replace")) > PASSWORD_BYTES_MAX:
        raise InvalidParam(
            f"the password should have {PASSWORD_CHARS_MIN} characters or more, and at most {PASSWORD_BYTES_MAX} bytes"
        )
