"""The instances of a soak, in a separate process: ``ACCESS-FILE COUNT CHURN-PER-S``.

``COUNT`` instances beat every 5 s from ``ready`` to ``halt``. The churn makes ``CHURN-PER-S`` changes a second: it
registers instances that never beat, and ones that it deregisters later; the metadata of each states its end.
"""

import asyncio
import collections
import json
import sys
from pathlib import Path

import orjson
import uvloop

from scripts.soak.soaked import BEAT_S, GONE_AT, PORT, SILENT_KEY, Access, beating, now_ms, service_of
from scripts.soak.wire import SILENT, Lines

LINES_EACH = 2
TICK_S = 0.05
NOT_FOUND = 20_404
KEPT_S = 40.0
"""From the registration of a churned instance to its deregistration; no repeated registration may follow it."""
CHANGE_TRIES = 6
SETTLE_MS = 30_000
"""Slack for a deregistration that a stopping member does not answer, so that it is repeated at another."""
SILENT_GONE_MS = 45_000
"""Time until an instance without beats is removed: its time-out of 30 s, and slack."""
TRIES = 3
REGISTERED_AT_ONCE = 200
INSTANCE = "/v1/ns/instance"


class Instances:
    """All instances, driven by one task; each call has its own callback."""

    def __init__(self, lines: Lines, count: int) -> None:
        self._lines = lines
        self._instances = list(beating(count))
        self.outcomes: collections.Counter[str] = collections.Counter()
        self._churned = 0
        self._loop = asyncio.get_running_loop()

    async def register_all(self) -> None:
        """Register all instances that beat.

        Raises:
            RuntimeError: every member refuses an instance.
        """
        for start in range(0, len(self._instances), REGISTERED_AT_ONCE):
            numbers = range(start, min(start + REGISTERED_AT_ONCE, len(self._instances)))
            answers = await asyncio.gather(*(self._register_now(number) for number in numbers))
            if refused := [answer for answer in answers if answer[0] != 200]:
                raise RuntimeError(f"a registration is refused: {refused[0]}")

    async def _register_now(self, number: int) -> tuple[int, bytes]:
        service, ip = self._instances[number]
        answer = SILENT, b""
        for turn in range(TRIES):
            line = self._lines.line(number, turn)
            answer = await line.ask("POST", INSTANCE, serviceName=service, ip=ip, port=PORT)
            if answer[0] == 200:
                break
        return answer

    async def beat(self) -> None:
        """Send the beats, spread over each period, for ever."""
        count, begun_s, sent = len(self._instances), self._loop.time(), 0
        while True:
            due = int((self._loop.time() - begun_s) / BEAT_S * count)
            for number in range(sent, due):
                self._beat(number % count, number // count, 0)
            sent = due
            await asyncio.sleep(TICK_S)

    def _beat(self, number: int, round_number: int, turn: int) -> None:
        service, ip = self._instances[number]

        def done(status: int, body: bytes) -> None:
            if status == 200:
                known = orjson.loads(body)["code"] != NOT_FOUND
                self.outcomes["beats taken" if known else "beats of unknown instances"] += 1
                if not known:
                    self._change("POST", number, {"serviceName": service, "ip": ip, "port": PORT})
            elif turn + 1 < TRIES:
                self._beat(number, round_number, turn + 1)
            else:
                self.outcomes[f"beats lost, {status or 'no answer'}"] += 1

        line = self._lines.line(number + round_number, turn)
        line.call("PUT", f"{INSTANCE}/beat", {"serviceName": service, "ip": ip, "port": PORT}, done)

    async def churn(self, per_s: float) -> None:
        """Register and deregister at the given rate, for ever."""
        begun_s, made, leaving = self._loop.time(), 0.0, collections.deque[tuple[float, int, dict[str, object]]]()
        while True:
            now_s = self._loop.time()
            while leaving and leaving[0][0] <= now_s:
                _, number, parameters = leaving.popleft()
                self._change("DELETE", number, parameters)
                made += 1
            while made < (now_s - begun_s) * per_s:
                made += 1
                number = self._churned = self._churned + 1
                is_silent = number % 4 == 0
                gone_ms = now_ms() + (SILENT_GONE_MS if is_silent else int(KEPT_S * 1_000) + SETTLE_MS)
                metadata = {GONE_AT: str(gone_ms), SILENT_KEY: str(is_silent)}
                where: dict[str, object] = {
                    "serviceName": service_of(number),
                    "ip": f"10.200.{number // 250 % 250}.{number % 250}",
                    "port": 1_024 + number // 62_500 % 60_000,
                }
                self._change("POST", number, where | {"metadata": json.dumps(metadata)})
                if not is_silent:
                    leaving.append((now_s + KEPT_S, number, where))
            await asyncio.sleep(TICK_S)

    def _change(self, method: str, number: int, parameters: dict[str, object], turn: int = 0) -> None:
        def done(status: int, _: bytes) -> None:
            if status == 200:
                self.outcomes["changes taken"] += 1
            elif turn + 1 < CHANGE_TRIES:
                delay_s = turn * 1.0
                self._loop.call_later(delay_s, lambda: self._change(method, number, parameters, turn + 1))
            else:
                self.outcomes[f"changes refused, {status or 'no answer'}"] += 1

        self._lines.line(number, turn).call(method, INSTANCE, parameters, done)


async def _run(access: Access, count: int, churn_per_s: float) -> None:
    lines = Lines(access, LINES_EACH)
    await lines.open()
    instances = Instances(lines, count)
    await instances.register_all()
    tasks = [asyncio.create_task(instances.beat())]
    # The registrations may have taken longer than an instance stays healthy without a beat.
    await asyncio.sleep(2 * BEAT_S)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    instances.outcomes.clear()
    tasks.append(asyncio.create_task(instances.churn(churn_per_s)))
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    faults = [repr(one) for one in ended if not isinstance(one, asyncio.CancelledError)]
    print(json.dumps({"outcomes": dict(instances.outcomes), "faults": faults}), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(Access.read(Path(sys.argv[1])), int(sys.argv[2]), float(sys.argv[3])))
