"""The draining of single instances: hidden from clients first, removed when these have acknowledged that."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from app.operator.drain_steps import DISABLE, REMOVE
from app.operator.instance_facts import AskedInstance
from distro.model.ports import Clock

LOG = logging.getLogger(__name__)
THREADS = 32
JOBS_MAX = 512
"""The most jobs that run or wait for a thread."""
ENDED_KEPT = 1_000
"""The most finished jobs whose result is still shown."""
WAITING_MAX = 16
"""The most callers that wait for the end of a job. Further callers get its progress at once, and ask again."""
POLL_S = 0.2
CALM_LOOKS = 2
"""This many consecutive checks must find all subscribers up to date, because a change may be between two queues."""
REMOVE_MS_MAX = 5_000
"""The time in which all members must know of the removal."""

Step = Callable[[str, AskedInstance], Mapping[str, Mapping[str, Any] | None]]
"""Makes all members take a step. Returns the view of each afterwards, None without an answer. Blocks for seconds."""


@dataclass(slots=True)
class DrainJob:
    """One instance that is drained. Any thread may call ``wait``; only the job's own thread writes the rest."""

    asked: AskedInstance
    least_ms: int
    """The shortest time that it stays hidden before it is removed, for clients that poll."""
    timeout_ms: int
    """It is removed after this time, even if clients have not acknowledged."""
    step: Step
    state: str = "waiting"
    seen: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    took_ms: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str) -> None:
        """Notify all waiting callers that the job is over."""
        self.state = state
        self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether the job is over within ``timeout_s``."""
        return self._over.wait(timeout_s)

    def told(self) -> dict[str, Any]:
        """Return the state for the caller. Shape: docs/operations/instances.md."""
        seen = {address: one for address, one in self.seen.items() if one is not None}
        return {
            "state": self.state,
            "isOver": self.is_over,
            "tookMs": self.took_ms,
            "subscribers": sum(one["subscribers"] for one in seen.values()),
            "behind": sum(one["behind"] for one in seen.values()),
            "notAnswered": sorted(address for address, one in self.seen.items() if one is None),
        }


class InstanceDrains:
    """Runs the jobs of this member. Thread-safe. A job continues if its caller hangs up, and ends with this process.

    A member that ends in the middle of a job leaves the instance hidden. The next call, at any member, resumes the job.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[AskedInstance, DrainJob] = {}
        self._running = 0
        self._waiting = threading.BoundedSemaphore(WAITING_MAX)
        self._stopped = threading.Event()
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, asked: AskedInstance, least_ms: int, timeout_ms: int, step: Step) -> DrainJob | None:
        """Return the job of an instance, and begin one unless one is running. None if too many run."""
        with self._lock:
            job = self._jobs.get(asked)
            if job is not None and not job.is_over:
                return job
            if self._running >= JOBS_MAX or self._stopped.is_set():
                return None
            self._jobs.pop(asked, None)
            job = self._jobs[asked] = DrainJob(asked, least_ms, timeout_ms, step)
            over = [key for key, one in self._jobs.items() if one.is_over]
            for key in over[: max(len(over) - ENDED_KEPT, 0)]:
                del self._jobs[key]
            self._running += 1
            if self._pool is None:  # most nodes never drain an instance
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="instance-drain")
            self._pool.submit(self._run, job)
            return job

    def find(self, asked: AskedInstance) -> DrainJob | None:
        """Return the job of an instance that is running or recently ended."""
        with self._lock:
            return self._jobs.get(asked)

    def may_wait(self) -> bool:
        """Return whether one more caller may wait for the end of a job. It then calls ``waited``."""
        return self._waiting.acquire(blocking=False)

    def waited(self) -> None:
        """Note that a caller no longer waits."""
        self._waiting.release()

    def stop(self) -> None:
        """Begin no more jobs, and end the running ones at their next look. May be called twice."""
        self._stopped.set()
        with self._lock:
            pool = self._pool
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: DrainJob) -> None:
        begun_ms = self._clock.monotonic_ms()
        state = "failed"
        try:
            state = self._drain(job, begun_ms)
        except Exception:
            LOG.exception("draining %s of %s failed unexpectedly", job.asked.key, job.asked.service)
        finally:
            job.took_ms = self._clock.monotonic_ms() - begun_ms
            with self._lock:
                self._running -= 1
            job.end(state)
            LOG.info("drain: %s of %s: %s after %d ms", job.asked.key, job.asked.service, state, job.took_ms)

    def _drain(self, job: DrainJob, begun_ms: int) -> str:
        job.state = "draining"
        if not self._step(job, DISABLE, "known"):
            return "absent"
        calm, acknowledged = 0, False
        while not acknowledged:
            passed_ms = job.took_ms = self._clock.monotonic_ms() - begun_ms
            if passed_ms >= job.timeout_ms:
                break
            if self._stopped.wait(POLL_S):
                return "interrupted"
            behind = self._step(job, DISABLE, "inLists", "behind")
            calm = 0 if behind else calm + 1
            acknowledged = calm >= CALM_LOOKS and passed_ms >= job.least_ms
        job.state = "removing"
        end_ms = self._clock.monotonic_ms() + REMOVE_MS_MAX
        while self._step(job, REMOVE, "known") and self._clock.monotonic_ms() < end_ms:
            if self._stopped.wait(POLL_S):
                return "interrupted"
        if any(one is not None and one["known"] for one in job.seen.values()):
            return "not removed everywhere"
        return "drained" if acknowledged else "drained, not all acknowledged in time"

    def _step(self, job: DrainJob, action: str, *names: str) -> bool:
        """Make all members take a step. Return whether any of these fields is true at a member that answered.

        It does not wait for members that do not answer: their clients learn of the removal when these are back.
        """
        job.seen = job.step(action, job.asked)
        return any(one is not None and any(one[name] for name in names) for one in job.seen.values())
