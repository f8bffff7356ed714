"""The leaving of single instances: hidden from clients first, removed when these have acknowledged that."""

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
"""Jobs that run or wait for a thread."""
ENDED_KEPT = 1_000
"""Jobs that are over, and whose end is still told."""
WAITING_MAX = 16
"""Callers that wait for the end of a job; more are told at once how far it is, and ask again."""
POLL_S = 0.2
CALM_LOOKS = 2
"""So many looks in a row must find all subscribers up to date: a change may be between two queues."""
REMOVE_MS_MAX = 5_000
"""For the removal to be known by all members."""

Step = Callable[[str, AskedInstance], Mapping[str, Mapping[str, Any] | None]]
"""Has all members take a step; what each saw after it, None for one that did not answer. Blocks, for seconds at most.
"""


@dataclass(slots=True)
class DrainJob:
    """One instance that leaves. ``wait`` from any thread; the rest is written by the job's own."""

    asked: AskedInstance
    least_ms: int
    """How long it stays hidden before it is removed: what clients that poll need."""
    timeout_ms: int
    """It is removed after so long, whoever has acknowledged."""
    state: str = "waiting"
    seen: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    took_ms: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str) -> None:
        """Tell all who wait that it is over."""
        self.state = state
        self._over.set()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Whether it is over within ``timeout_s``."""
        return self._over.wait(timeout_s)

    def told(self) -> dict[str, Any]:
        """The state for its caller. Shape: docs/operations.md."""
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
    """Runs the jobs of this member. Thread-safe. A job goes on when its caller hangs up, and ends with this process.

    A member that ends in the middle of a job leaves the instance hidden: the next call, at any member, goes on.
    """

    def __init__(self, clock: Clock, step: Step = lambda _action, _asked: {}) -> None:
        self.step = step
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[AskedInstance, DrainJob] = {}
        self._running = 0
        self._waiting = threading.BoundedSemaphore(WAITING_MAX)
        self._stopped = threading.Event()
        self._pool: ThreadPoolExecutor | None = None

    def begin(self, asked: AskedInstance, least_ms: int, timeout_ms: int) -> DrainJob | None:
        """The job of an instance, which is begun unless it runs already; None when too many run."""
        with self._lock:
            job = self._jobs.get(asked)
            if job is not None and not job.is_over:
                return job
            if self._running >= JOBS_MAX or self._stopped.is_set():
                return None
            self._jobs.pop(asked, None)
            job = self._jobs[asked] = DrainJob(asked, least_ms, timeout_ms)
            over = [key for key, one in self._jobs.items() if one.is_over]
            for key in over[: max(len(over) - ENDED_KEPT, 0)]:
                del self._jobs[key]
            self._running += 1
            if self._pool is None:  # most nodes never drain an instance
                self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="instance-drain")
            self._pool.submit(self._run, job)
            return job

    def find(self, asked: AskedInstance) -> DrainJob | None:
        """The job of an instance that runs, or ended lately."""
        with self._lock:
            return self._jobs.get(asked)

    def may_wait(self) -> bool:
        """Whether one more caller may wait for the end of a job; it then calls ``waited``."""
        return self._waiting.acquire(blocking=False)

    def waited(self) -> None:
        """A caller waits no more."""
        self._waiting.release()

    def stop(self) -> None:
        """Begin no more jobs, and end those that run at their next look. May be called twice."""
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
            LOG.exception("draining %s of %s failed in an unforeseen way", job.asked.key, job.asked.service)
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
        """Have all members take a step; whether any of these fields is true at a member that answered.

        A member that does not answer is not waited for: its own clients learn of the removal when it is back.
        """
        job.seen = self.step(action, job.asked)
        return any(one is not None and any(one[name] for name in names) for one in job.seen.values())
