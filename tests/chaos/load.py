"""The clients of a run: instances that last, that come and go, and that two sides of a cut write; and their readers.

Clients reach every member all the time: only members are cut off from each other. A client goes to another member when
one does not answer or refuses, as SDKs do. It says one thing at a time: a removal begins when the last beat has ended.
"""

import asyncio
import contextlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass

from tests.chaos.connected import ConnectedClient, Surroundings
from tests.chaos.history import Beat, History, Key, Outcome, Sample, Seen, Word
from tests.chaos.http import CLIENT_TIMEOUT_S, call

BEAT_S = 5.0
SAMPLE_S = 0.5
SAMPLE_TIMEOUT_S = 1.0
CHURN_S = 0.1
SAME_KEY_S = 4.0
LATE_S = 4.0
"""In so long near the end of a cut instances are registered through one side and removed through the other."""
"""From one word about an instance of two sides to the next: beats and removals are compared by time, to the second."""
TRIES = 30
RETRY_S = 0.2
LAST_TRIES = 3
CONNECTED_S = 30.0
UNKNOWN_INSTANCE = 20_404
PORT = 8080
TICK_S = 0.1
STOOD_STILL_S = 0.25
"""Clients that are so late have stood still."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much load there is."""

    lasting: int = 500
    lasting_services: int = 40
    churn_services: int = 4
    churn_lives_s: tuple[float, float] = (2.0, 9.0)
    """From the registration of an instance that comes and goes to its deregistration: the least and the most."""
    two_sided: int = 24
    """Ephemeral instances that both sides write, and as many persistent ones."""
    two_sided_services: int = 6
    connected: int = 100
    """Instances that clients with connections publish all the time."""
    connected_services: int = 8
    connected_two_sided: int = 18
    """Instances of clients with connections that change, withdraw and move them."""
    connected_two_sided_services: int = 3
    late: int = 40
    """Instances that are registered on one side near the end of a cut, and soon removed on the other."""
    late_services: int = 4
    owner: str = ""
    """With it begin the names of services whose instances last: of two linked clusters each has some of its own."""
    first_ip: int = 0
    """The number of the first address: two linked clusters have different ones."""
    also_read: Sequence[str] = ()
    """Further services that readers read, as other clients write them."""

    def lasting_names(self) -> list[str]:
        """The services whose instances last: of clients that beat, and of those with connections."""
        beating = [f"{self.owner}lasting-{number}" for number in range(self.lasting_services)]
        return beating + [f"{self.owner}connected-{number}" for number in range(self.connected_services)]


class Load:
    """The clients and readers, in one event loop. ``seed`` decides who calls whom, and when."""

    def __init__(
        self, addresses: Sequence[str], members: Iterable[int], durable_ips: Sequence[str], amounts: Amounts, seed: int
    ) -> None:
        """``members``: those of ``addresses`` that clients know; ``durable_ips``: of the persistent instances."""
        self.history = History()
        self.writing = asyncio.Event()
        """While set, the keys of two sides are written."""
        self.late_s = 0.0
        """How late these clients were at most: figures of a machine that is too busy mean little."""
        self._addresses = addresses
        self._members = list(members)
        self._durable_ips = durable_ips
        self._amounts = amounts
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._beating: dict[Key, asyncio.Task[None]] = {}
        self._turns: dict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a key's client says something."""
        self._member_of: dict[Key, int] = {}
        """Where a client's beats go."""
        self._metadata: dict[Key, str] = {}
        self._errors: list[BaseException] = []
        self._marks = 0
        self._ips = amounts.first_ip
        self._services: list[str] = []
        self._late = [f"late-{number}" for number in range(amounts.late_services)]
        self._stopping = False

    # --- life -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Register what lasts, and begin everything else but writes of two sides."""
        amounts = self._amounts
        names = amounts.lasting_names()[: amounts.lasting_services]
        lasting = [Key(names[number % len(names)], self._new_ip()) for number in range(amounts.lasting)]
        self.history.lasting.update(lasting)
        gate = asyncio.Semaphore(20)

        async def register(key: Key) -> None:
            async with gate:
                member = await self._write_until_done(key, self._new_mark())
            if member is None:
                raise RuntimeError(f"no member took {key}: {self.history.words[key][-1].text}")
            self._beat_from(key, member)

        await asyncio.gather(*map(register, lasting))
        connected, moving = await self._begin_connected(gate)
        two_sided = [f"two-sided-{number}" for number in range(amounts.two_sided_services)]
        durable = [f"durable-{number}" for number in range(amounts.two_sided_services)]
        churning = [f"churn-{number}" for number in range(amounts.churn_services)]
        self.history.churning = set(churning)
        self._services = [*sorted({key.service for key in lasting}), *two_sided, *durable, *churning]
        self._services += [*connected, *moving, *self._late, *amounts.also_read]
        keys = [Key(two_sided[number % len(two_sided)], self._new_ip()) for number in range(amounts.two_sided)]
        keys += [Key(durable[number % len(durable)], ip, durable=True) for number, ip in enumerate(self._durable_ips)]
        for key in keys:
            self._begin(self._write_now_and_then(key))
        for number in self._members:
            self._readers[number] = self._begin(self._read(number))
        self._begin(self._churn(churning))
        self._begin(self._watch_the_time())

    async def _begin_connected(self, gate: asyncio.Semaphore) -> tuple[list[str], list[str]]:
        """Begin the clients with connections; return the services of those that last, and of those that move."""
        amounts = self._amounts
        around = Surroundings(self.history, self._addresses, self._next_member, self._new_mark, self._random)
        services = amounts.lasting_names()[amounts.lasting_services :]
        moving = [f"moving-{number}" for number in range(amounts.connected_two_sided_services)]

        async def begin(key: Key) -> None:
            client = ConnectedClient(key, around)
            async with gate:
                self._begin(client.last())
                async with asyncio.timeout(CONNECTED_S):
                    await client.registered.wait()

        keys = [Key(services[number % len(services)], self._new_ip()) for number in range(amounts.connected)]
        self.history.lasting.update(keys)
        self.history.connected.update(keys)
        await asyncio.gather(*map(begin, keys))
        for number in range(amounts.connected_two_sided):
            key = Key(moving[number % len(moving)], self._new_ip())
            self.history.connected.add(key)
            client = ConnectedClient(key, around)
            self._begin(client.write_now_and_then(self.writing, SAME_KEY_S))
        return services, moving

    def _next_member(self, member: int | None) -> int:
        return self._random.choice(self._members) if member is None else self._after(member)

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)

    def join(self, number: int) -> None:
        """Let clients know of a further member, which serves."""
        self._members.append(number)
        self._readers[number] = self._begin(self._read(number))

    def stop_reading(self, number: int) -> None:
        """Look at the lists of a member no more: it is to leave. Clients go on calling it."""
        self._readers.pop(number).cancel()

    def leave(self, number: int) -> None:
        """Let clients know that a member is gone, which is no longer read."""
        self._members.remove(number)

    def stop_churn(self) -> None:
        """Begin no further lives; those begun end in their time."""
        self._stopping = True

    async def end(self) -> None:
        """End all clients.

        Raises:
            BaseException: what ended one of them before.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._errors:
            raise self._errors[0]

    async def _watch_the_time(self) -> None:
        while True:
            due_s = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            late_s = time.monotonic() - due_s
            self.late_s = max(self.late_s, late_s)
            if late_s >= STOOD_STILL_S:
                self.history.stood_still.append((due_s - TICK_S, due_s + late_s))

    def _new_ip(self) -> str:
        self._ips += 1
        return f"10.{self._ips >> 16}.{self._ips >> 8 & 255}.{self._ips & 255}"

    def _new_mark(self) -> str:
        self._marks += 1
        return f"m{self._marks}"

    def _after(self, member: int) -> int:
        """The next of the members that clients know."""
        if member not in self._members:
            return self._random.choice(self._members)
        return self._members[(self._members.index(member) + 1) % len(self._members)]

    # --- words ----------------------------------------------------------------------------------------

    async def _write(self, key: Key, member: int, mark: str | None) -> bool:
        parameters = {"serviceName": key.service, "ip": key.ip, "port": PORT}
        parameters["ephemeral"] = "false" if key.durable else "true"
        if mark is not None:
            parameters["metadata"] = json.dumps({"mark": mark})
        begun_s = time.monotonic()
        outcome, text = Outcome.UNKNOWN, "the run ended"
        try:
            status, body = await call(
                self._addresses[member], "DELETE" if mark is None else "POST", "/instance", parameters
            )
            outcome = Outcome.DONE if status == 200 else Outcome.REFUSED
            text = "" if status == 200 else f"{status} {body[:120]!r}"
        except OSError as error:
            text = str(error)
        finally:
            word = Word(mark, member, begun_s, time.monotonic(), outcome, text)
            self.history.words[key].append(word)
        if outcome is Outcome.DONE and not key.durable and mark is not None:
            self.history.beats[key].append(Beat(member, begun_s, word.ended_s))
            self._metadata[key] = mark
        return outcome is Outcome.DONE

    async def _write_until_done(self, key: Key, mark: str | None) -> int | None:
        """Write through one member after the other, as an SDK does; return the one that acknowledged it."""
        member = self._random.choice(self._members)
        for _ in range(TRIES):
            if await self._write(key, member, mark):
                return member
            await asyncio.sleep(RETRY_S)
            member = self._after(member)
        return None

    # --- beats ----------------------------------------------------------------------------------------

    def _beat_from(self, key: Key, member: int) -> None:
        self._member_of[key] = member
        if key not in self._beating:
            self._beating[key] = self._begin(self._beat(key))

    def _stop_beats(self, key: Key) -> None:
        """End the beats of a key, in its client's turn: none is under way."""
        if (task := self._beating.pop(key, None)) is not None:
            task.cancel()

    async def _beat(self, key: Key) -> None:
        await asyncio.sleep(self._random.uniform(0, BEAT_S))
        while True:
            began_s = time.monotonic()
            async with self._turns[key]:
                for _ in range(len(self._members)):
                    if await self._beat_once(key):
                        break
                    self._member_of[key] = self._after(self._member_of[key])
            await asyncio.sleep(max(began_s + BEAT_S - time.monotonic(), 0))

    async def _beat_once(self, key: Key) -> bool:
        """Whether the member answered. An instance that it does not know is registered again, once."""
        member = self._member_of[key]
        parameters = {"serviceName": key.service, "ip": key.ip, "port": PORT}
        if self._random.random() < 0.3:
            beat = {"ip": key.ip, "port": PORT, "serviceName": f"DEFAULT_GROUP@@{key.service}", "cluster": "DEFAULT"}
            beat |= {"weight": 1.0, "metadata": {"mark": self._metadata[key]}, "scheduled": True, "period": 5_000}
            parameters["beat"] = json.dumps(beat)
        begun_s = time.monotonic()
        try:
            status, body = await call(self._addresses[member], "PUT", "/instance/beat", parameters)
            answer = json.loads(body) if status == 200 else {}
        except (OSError, ValueError):
            return False
        if answer.get("code") == UNKNOWN_INSTANCE:
            self.history.unknown_beats += key in self.history.lasting
            return await self._write(key, member, self._metadata[key])
        if answer:
            self.history.beats[key].append(Beat(member, begun_s, time.monotonic()))
        return bool(answer)

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
        await asyncio.sleep(self._random.uniform(*self._amounts.churn_lives_s))
        async with self._turns[key]:
            self._stop_beats(key)
            await self._write_until_done(key, None)

    async def remove_late(self, sides: Sequence[Sequence[int]]) -> None:
        """Register instances through one of two sides, and remove each through the other within the next second."""
        keys = [Key(self._late[number % len(self._late)], self._new_ip()) for number in range(self._amounts.late)]
        self.history.late.update(keys)
        for number, key in enumerate(keys):
            one, other = (sides[turn] for turn in (number % 2, 1 - number % 2))
            self._begin(self._live_briefly(key, self._random.choice(one), self._random.choice(other)))
            await asyncio.sleep(LATE_S / len(keys))

    async def _live_briefly(self, key: Key, member: int, other: int) -> None:
        if await self._write(key, member, self._new_mark()):
            await asyncio.sleep(self._random.uniform(0.05, 1.0))
            await self._write(key, other, None)

    async def _write_now_and_then(self, key: Key) -> None:
        """Write a key through any member while that is wanted; nothing that is refused is tried again."""
        await asyncio.sleep(self._random.uniform(0, SAME_KEY_S))
        present = False
        while True:
            await self.writing.wait()
            async with self._turns[key]:
                member = self._random.choice(self._members)
                if present and self._random.random() < 0.4:
                    # Who is not told that it is removed goes on living.
                    if await self._write(key, member, None):
                        self._stop_beats(key)
                        present = False
                elif await self._write(key, member, self._new_mark()):
                    present = True
                    if not key.durable:
                        self._beat_from(key, member)
            await asyncio.sleep(SAME_KEY_S * self._random.uniform(1, 1.5))

    # --- readers --------------------------------------------------------------------------------------

    async def _read(self, member: int) -> None:
        while True:
            began_s = time.monotonic()
            for service in self._services:
                sample = await self._read_one(member, service, SAMPLE_TIMEOUT_S)
                self.history.samples.append(sample)
                if sample.hosts is None:
                    await asyncio.sleep(SAMPLE_S / 10)
            await asyncio.sleep(max(began_s + SAMPLE_S - time.monotonic(), 0))

    async def read_all(self, member: int) -> None:
        """Ask a member for all lists at once, and wait for its answers."""
        reads = (self._read_one(member, service, CLIENT_TIMEOUT_S) for service in self._services)
        self.history.samples += await asyncio.gather(*reads)

    async def _read_one(self, member: int, service: str, timeout_s: float) -> Sample:
        begun_s = time.monotonic()
        hosts: dict[str, Seen] | None = None
        with contextlib.suppress(OSError, ValueError, KeyError):
            status, body = await call(
                self._addresses[member], "GET", "/instance/list", {"serviceName": service}, timeout_s
            )
            if status == 200:
                hosts = {
                    one["ip"]: Seen((one.get("metadata") or {}).get("mark", ""), bool(one["healthy"]), _rest_of(one))
                    for one in json.loads(body)["hosts"]
                }
        return Sample(member, service, begun_s, time.monotonic(), hosts)

    async def read_last(self) -> list[Sample]:
        """The list of each service at each member, one after the other; a member that gives none is asked again."""
        samples = []
        for service in self._services:
            for member in self._members:
                for _ in range(LAST_TRIES):
                    sample = await self._read_one(member, service, CLIENT_TIMEOUT_S)
                    if sample.hosts is not None:
                        break
                samples.append(sample)
        return samples


def _rest_of(host: dict[str, object]) -> str:
    """What a list says of an instance beside its address and health, as text."""
    return json.dumps([host.get("weight"), host.get("metadata"), host.get("enabled")], sort_keys=True)
