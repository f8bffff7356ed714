"""The clients of a run: instances that last, that come and go, and that two sides of a cut write; and their readers.

Clients reach every member all the time: only members are cut off from each other. A client goes to another member when
one does not answer or refuses, as SDKs do.
"""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.history import History, Key, Outcome, Sample, Seen, Word
from tests.chaos.http import call

BEAT_S = 5.0
SAMPLE_S = 0.5
SAMPLE_TIMEOUT_S = 1.0
CHURN_S = 0.1
CHURN_LIVES_S = (2.0, 9.0)
WRITE_S = 0.15
"""From one word about the keys of two sides to the next."""
SAME_KEY_S = 4.0
"""From one word about an ephemeral instance to the next: beats and removals are compared by time, to the second."""
TRIES = 30
UNKNOWN_INSTANCE = 20_404
PORT = 8080


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much load there is."""

    lasting: int = 500
    lasting_services: int = 40
    churn_services: int = 4
    two_sided: int = 24
    """Ephemeral instances that both sides write, and as many persistent ones."""
    two_sided_services: int = 6


class Load:
    """Runs in one event loop. ``addresses`` are the members'; ``rng`` decides who calls whom."""

    def __init__(self, addresses: Sequence[str], amounts: Amounts, seed: int) -> None:
        self.history = History()
        self.writing = asyncio.Event()
        """While set, the keys of two sides are written."""
        self.durable_ips: list[str] = []
        self._addresses = addresses
        self._amounts = amounts
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._marks = 0
        self._alive: dict[Key, int] = {}
        """Ephemeral keys whose clients beat, with their member."""
        self._metadata: dict[Key, str] = {}
        self._ips = 0
        self._services: list[str] = []
        self._stopping = False

    # --- life -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Register what lasts, and begin everything else but writes of two sides."""
        lasting = [
            Key(f"lasting-{number % self._amounts.lasting_services}", self._new_ip())
            for number in range(self._amounts.lasting)
        ]
        gate = asyncio.Semaphore(20)

        async def register(number: int, key: Key) -> None:
            async with gate:
                member = number % len(self._addresses)
                while not await self._write(key, member, self._new_mark()):
                    member = (member + 1) % len(self._addresses)
                self.history.lasting[key] = time.monotonic()
                self._beat_from(key, member)

        await asyncio.gather(*[register(number, key) for number, key in enumerate(lasting)])
        self._services = sorted({key.service for key in lasting})
        two_sided = [f"two-sided-{number}" for number in range(self._amounts.two_sided_services)]
        durable = [f"durable-{number}" for number in range(self._amounts.two_sided_services)]
        churning = [f"churn-{number}" for number in range(self._amounts.churn_services)]
        self.history.churning = set(churning)
        self._services += [*two_sided, *durable, *churning]
        keys = [Key(two_sided[number % len(two_sided)], self._new_ip()) for number in range(self._amounts.two_sided)]
        durable_ips = self.durable_ips or [self._new_ip() for _ in range(self._amounts.two_sided)]
        keys += [Key(durable[number % len(durable)], ip, durable=True) for number, ip in enumerate(durable_ips)]
        for key in keys:
            self._begin(self._write_now_and_then(key))
        for number in range(len(self._addresses)):
            self._begin(self._read(number))
        self._begin(self._churn(churning))

    def _begin(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop_churn(self) -> None:
        """Begin no further lives; those begun end in their time."""
        self._stopping = True

    async def end(self) -> None:
        """End all clients."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _new_ip(self) -> str:
        self._ips += 1
        return f"10.{self._ips >> 16}.{self._ips >> 8 & 255}.{self._ips & 255}"

    def _new_mark(self) -> str:
        self._marks += 1
        return f"m{self._marks}"

    # --- calls ----------------------------------------------------------------------------------------

    async def _write(self, key: Key, member: int, mark: str | None, method: str = "") -> bool:
        parameters = {"serviceName": key.service, "ip": key.ip, "port": PORT}
        parameters["ephemeral"] = "false" if key.durable else "true"
        if mark is not None:
            parameters["metadata"] = json.dumps({"mark": mark})
        begun_s = time.monotonic()
        method = method or ("DELETE" if mark is None else "POST")
        try:
            status, body = await call(self._addresses[member], method, "/instance", parameters)
            outcome = Outcome.DONE if status == 200 else Outcome.REFUSED
            text = "" if status == 200 else f"{status} {body[:120]!r}"
        except OSError as error:
            outcome, text = Outcome.UNKNOWN, str(error)
        word = Word(mark, member, begun_s, time.monotonic(), outcome, text)
        self.history.words[key].append(word)
        if outcome is Outcome.DONE and not key.durable and mark is not None:
            self.history.beats[key].acknowledge(member, word.ended_s)
            self._metadata[key] = mark
        return outcome is Outcome.DONE

    async def _write_until_done(self, key: Key, mark: str | None) -> int | None:
        """Write through one member after the other, as an SDK does; return the one that acknowledged it."""
        member = self._random.randrange(len(self._addresses))
        for _ in range(TRIES):
            if await self._write(key, member, mark):
                return member
            member = (member + 1) % len(self._addresses)
            await asyncio.sleep(0.2)
        return None

    # --- beats ----------------------------------------------------------------------------------------

    def _beat_from(self, key: Key, member: int) -> None:
        self._alive[key] = member
        self._begin(self._beat(key))

    async def _beat(self, key: Key) -> None:
        await asyncio.sleep(self._random.uniform(0, BEAT_S))
        while key in self._alive:
            began_s = time.monotonic()
            for _ in self._addresses:
                if key not in self._alive or await self._beat_once(key):
                    break
            await asyncio.sleep(max(began_s + BEAT_S - time.monotonic(), 0))

    async def _beat_once(self, key: Key) -> bool:
        member = self._alive[key]
        beat = {"ip": key.ip, "port": PORT, "serviceName": f"DEFAULT_GROUP@@{key.service}", "cluster": "DEFAULT"}
        beat |= {"weight": 1.0, "metadata": {"mark": self._metadata[key]}, "scheduled": True, "period": 5_000}
        parameters = {"serviceName": key.service, "ip": key.ip, "port": PORT}
        if self._random.random() < 0.3:
            parameters["beat"] = json.dumps(beat)
        try:
            status, body = await call(self._addresses[member], "PUT", "/instance/beat", parameters)
            answer = json.loads(body) if status == 200 else {}
        except (OSError, ValueError):
            answer = {}
        if key not in self._alive:
            return True
        if answer.get("code") == UNKNOWN_INSTANCE:
            self.history.beats[key].unknown_s.append(time.monotonic())
            await self._write(key, member, self._metadata[key])
            return True
        if answer:
            self.history.beats[key].acknowledge(member, time.monotonic())
            return True
        self._alive[key] = (member + 1) % len(self._addresses)
        return False

    # --- those that come and go -----------------------------------------------------------------------

    async def _churn(self, services: Sequence[str]) -> None:
        while not self._stopping:
            self._begin(self._live(Key(self._random.choice(services), self._new_ip())))
            await asyncio.sleep(CHURN_S)

    async def _live(self, key: Key) -> None:
        member = await self._write_until_done(key, self._new_mark())
        if member is None:
            return
        self._beat_from(key, member)
        await asyncio.sleep(self._random.uniform(*CHURN_LIVES_S))
        self._alive.pop(key, None)
        await self._write_until_done(key, None)

    async def _write_now_and_then(self, key: Key) -> None:
        """Write a key through any member while that is wanted; nothing that is refused is tried again."""
        await asyncio.sleep(self._random.uniform(0, SAME_KEY_S))
        present = False
        while True:
            await self.writing.wait()
            member = self._random.randrange(len(self._addresses))
            if present and self._random.random() < 0.4:
                self._alive.pop(key, None)
                if await self._write(key, member, None):
                    present = False
                elif not key.durable:
                    # The client goes on living until somebody takes its word.
                    self._beat_from(key, member)
            elif await self._write(key, member, self._new_mark()):
                if not key.durable and key not in self._alive:
                    self._beat_from(key, member)
                present = True
            await asyncio.sleep(SAME_KEY_S * self._random.uniform(1, 1.5))

    # --- readers --------------------------------------------------------------------------------------

    async def _read(self, member: int) -> None:
        while True:
            began_s = time.monotonic()
            for service in self._services:
                await self._read_one(member, service)
                if self.history.samples[-1].hosts is None:
                    await asyncio.sleep(SAMPLE_S / 10)
            await asyncio.sleep(max(began_s + SAMPLE_S - time.monotonic(), 0))

    async def _read_one(self, member: int, service: str) -> None:
        begun_s = time.monotonic()
        hosts: dict[str, Seen] | None = None
        with contextlib.suppress(OSError, ValueError, KeyError):
            status, body = await call(
                self._addresses[member], "GET", "/instance/list", {"serviceName": service}, SAMPLE_TIMEOUT_S
            )
            if status == 200:
                hosts = {
                    one["ip"]: Seen((one.get("metadata") or {}).get("mark", ""), bool(one["healthy"]))
                    for one in json.loads(body)["hosts"]
                }
        self.history.samples.append(Sample(member, service, begun_s, time.monotonic(), hosts))
