"""The secret for making the first administrator: a file that only the node's own user can read."""

import hmac
import logging
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from app.auth.refusals import TooManyLogins
from app.config.auth_settings import FIRST_ADMIN_FILE, read_secret
from app.naming.model.nacos_errors import NoRight

SECRET_BYTES = 32
CHECK_MS, RETRY_MS = 1_000, 30_000
"""The time between two checks without an administrator; and with one, or if the file cannot be written."""
WINDOW_MS, WRONG_MAX = 60_000, 10
"""The most wrong attempts in a window that get the reason. Further ones must wait. The right secret never waits."""
NEEDED = (
    f"create the first administrator with the secret in the file {FIRST_ADMIN_FILE} of a member's data folder, "
    "as the parameter secret; rollcall admin on the machine of a member reads it by itself"
)

log = logging.getLogger(__name__)


class SetupSecret:
    """The file exists while there is no administrator. Its secret counts only while the file holds it.

    Thread-safe; ``tick`` is for one thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        has_admin: Callable[[], bool],
        is_serving: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        """``is_serving()``: returns whether this node knows the users of the other members."""
        self.path = folder / FIRST_ADMIN_FILE
        self._has_admin = has_admin
        self._is_serving = is_serving
        self._now_ms = now_ms
        self.value = ""
        """The secret; empty while there is none."""
        self._is_told = False
        self._window_ms, self._wrong = 0, 0

    def tick(self, now_ms: int) -> int:
        """Write the file, or remove it. Return when to check again."""
        if self._has_admin():
            self.end()
            return now_ms + RETRY_MS
        if not self.value or not self._is_in_file():
            if self.value:
                log.warning("%s was removed or changed: a new secret is made", self.path)
            self.value = ""
            value = secrets.token_urlsafe(SECRET_BYTES)
            try:
                self._write(value)
            except OSError as error:
                log.error("%s of the first administrator cannot be written: %s", self.path, error.strerror)
                return now_ms + RETRY_MS
            self.value = value
        if not self._is_told and self._is_serving():
            self._is_told = True
            log.warning(
                "there is no administrator yet: create the first one with rollcall admin, or in the console with the "
                "secret in %s",
                self.path,
            )
        return now_ms + CHECK_MS

    def end(self) -> None:
        """Forget the secret, and remove the file."""
        self.value = ""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def check(self, given: str, remote_ip: str) -> None:
        """Check that a caller gives the secret.

        Raises:
            NoRight: it is missing or wrong.
            TooManyLogins: it is missing or wrong, after many wrong ones.
        """
        value = self.value
        if value and hmac.compare_digest(given.encode("utf-8", "replace"), value.encode()):
            return
        now_ms = self._now_ms()
        if now_ms - self._window_ms >= WINDOW_MS:
            self._window_ms, self._wrong = now_ms, 0
        self._wrong += 1
        if self._wrong == 1:
            log.warning("%s tried to create the first administrator without the secret", remote_ip)
        if self._wrong > WRONG_MAX:
            wait_ms = self._window_ms + WINDOW_MS - now_ms
            raise TooManyLogins("too many wrong secrets, please try again later", wait_ms // 1_000 + 1)
        raise NoRight(NEEDED)

    def _is_in_file(self) -> bool:
        """Return whether the file still holds the secret: removing or changing the file ends it."""
        return read_secret(self.path) == self.value

    def _write(self, value: str) -> None:
        new = self.path.with_name(f"{FIRST_ADMIN_FILE}.new")
        new.unlink(missing_ok=True)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(value + "\n")
        new.replace(self.path)
