"""The end of operators' changes whose instances are gone: found by the naming timer, removed by a separate thread."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from app.naming.model.nacos_errors import StorageError
from app.naming.records.override_expiry import Expired, ExpiryGate, OverrideExpiry
from app.naming.records.override_service import OverrideService

LOG = logging.getLogger(__name__)
TICK_MS = 5_000
"""Source: Nacos 2.3.1 GlobalConfig (``nacos.naming.clean.expired-metadata.interval``)."""


class OverrideUpkeep:
    """Removes what ``OverrideExpiry`` finds. The removal waits for the disk, so the naming timer does not make it."""

    def __init__(
        self, expiry: OverrideExpiry, overrides: OverrideService, gate: Callable[[], ExpiryGate], pause_ms: int
    ) -> None:
        """``pause_ms``: a later tick is one after a pause of this process."""
        self._expiry, self._overrides, self._gate = expiry, overrides, gate
        self._pause_ms = pause_ms
        self._expected_ms: int | None = None
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._is_busy = self._is_stopped = False
        self.dropped = 0
        """Changes removed since the start."""

    def tick(self, now_ms: int) -> int:
        """Begin to remove the changes whose instances are gone. Return when to call again."""
        late_ms = now_ms - self._expected_ms if self._expected_ms is not None else 0
        found = self._expiry.find(now_ms, late_ms if late_ms > self._pause_ms else 0, self._gate())
        if found:
            self._submit(found)
        self._expected_ms = now_ms + TICK_MS
        return self._expected_ms

    def _submit(self, found: list[Expired]) -> None:
        with self._lock:
            if self._is_busy or self._is_stopped:
                return  # the next tick finds them again
            self._is_busy = True
            if self._pool is None:  # most nodes never remove one
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="override-expiry")
            self._pool.submit(self._remove, found)

    def _remove(self, found: list[Expired]) -> None:
        try:
            for one in found:
                self._overrides.drop(*one)
                self.dropped += len(one.keys)
                what = f"{one.keys[0]}{f' and {more} more' if (more := len(one.keys) - 1) else ''}"
                LOG.info("an operator's change of %s of %s is dropped: the instance is gone", what, one.service)
        except StorageError as error:
            LOG.error("the disk refuses to remove expired changes of operators; the removal is retried: %s", error)
        except Exception:
            LOG.exception("the removal of expired changes of operators failed unexpectedly")
        finally:
            with self._lock:
                self._is_busy = False

    def stop(self) -> None:
        """End the thread. May be called twice."""
        with self._lock:
            self._is_stopped = True
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)
