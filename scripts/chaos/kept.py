"""Send three members keys, sizes and kinds of every sort, over every API; they must keep acknowledged writes.

After each hundred inputs all members must hold the same durable records and versions of lists, including every
acknowledged write. No member may keep refusing data of another one, and all members must start again with their data,
whether they were stopped or killed. Prints a table; exit code 1 after a breach.

    python -m scripts.chaos.kept --inputs 10000 --seed 1
"""

import argparse
import asyncio
import collections
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from app.naming.model.keys import NAMESPACE_SPLITTER, SERVICE_META_PREFIX
from app.naming.records.record_keys import PERSISTENT_PREFIX
from distro.wire.http_agent import MEMBER_HEADER
from scripts.chaos.hostile_calls import call, fetch
from scripts.chaos.hostile_corpus import DATUMS, RECORDS_TYPE, Shot
from scripts.chaos.kept_corpus import Corpus, KeyInput
from scripts.support.arguments import add_port, add_rollcall
from scripts.support.grpc_clients import ABILITIES, FAULTS, SDK_OFFSET
from scripts.support.member_processes import MemberProcess, drill_folder, local_members, start_all
from scripts.support.verdicts import Measured, table
from tests.support.sdk_client import SdkClient

MEMBERS = 3
SETTINGS = {"nacos.core.protocol.distro.data.verify.intervalMs": "1000"}
BETWEEN_RESTARTS = 100
AGREED_TIMEOUT_S = 60.0
HANG_S = 180.0
"""A time-out for hangs on a shared machine; another drill measures how fast members start."""
ROUNDS_S = 2.5
"""Two verify rounds: a refused key is sent again in each."""
REFUSING_ROUNDS = 3
"""The spans of ``ROUNDS_S`` in a row in which a member refuses data before it counts as refusing it for good."""
POLL_S = 0.2
GRPC_TIMEOUT_S = 10.0
SHOWN = 10
KILLED_EVERY = 3
TRACEBACK = "Traceback (most recent call last)"
METRICS = "/v1/ns/operator/metrics"
LISTS = ""
Held = dict[str, Any]
"""The values of durable records, by key; removed records have none."""


class Kept:
    """Three members, their acknowledged writes, and their restarts."""

    def __init__(
        self, members: Sequence[MemberProcess], inputs: int, seed: int, between: int = BETWEEN_RESTARTS
    ) -> None:
        self._members = members
        self._inputs = inputs
        self._between = between
        self._corpus = Corpus(seed, [member.address for member in members])
        self._turn = seed
        self._expected: dict[str, tuple[bool, str]] = {}
        """The acknowledged writes by record: whether it has a value, and the input."""
        self._clients: list[SdkClient] = []
        self.answers: collections.Counter[str] = collections.Counter()
        self.acknowledged: collections.Counter[str] = collections.Counter()
        self.restarts = 0
        self.breaches: list[str] = []

    async def run(self) -> list[Measured]:
        """Run the drill, at most until a member does not start; return the measurements."""
        begun_s = time.monotonic()
        done = 0
        try:
            await self._start()
            while done < self._inputs:
                some = min(self._between, self._inputs - done)
                for _ in range(some):
                    await self._send(self._corpus.next())
                done += some
                await self._settle_and_restart()
                print(f"{done} inputs, {self.restarts} restarts, {len(self.breaches)} breaches", flush=True)
        except RuntimeError as error:
            self._breach(f"a member does not start, or does not answer: {error}")
        finally:
            await self._hang_up()
        logs = [line for member in self._members for line in member.log.read_text(errors="replace").splitlines()]
        return [
            Measured("inputs", done),
            Measured("ways in", len(self.answers)),
            Measured("APIs that acknowledged something", len(self.acknowledged)),
            Measured("inputs that were acknowledged", sum(self.acknowledged.values())),
            Measured("durable records with an acknowledgement", len(self._expected)),
            Measured("restarts of all members", self.restarts),
            Measured("seconds", round(time.monotonic() - begun_s)),
            Measured("tracebacks in the members' logs", logs.count(TRACEBACK), 0),
            Measured("breaches", len(self.breaches), 0),
        ]

    def _breach(self, text: str) -> None:
        self.breaches.append(text)
        print(f"BREACH after {self.restarts} restarts: {text[:2_000]}", flush=True)

    # --- inputs ----------------------------------------------------------------------------------

    async def _send(self, one: KeyInput) -> None:
        """Send an input to the next member in turn, and record what its acknowledgement promises."""
        at = self._turn % MEMBERS
        self._turn += 1
        self.answers[one.way] += 1
        is_taken = await (self._ask(at, one) if one.shot is None else self._call(at, one.shot))
        if one.key and (is_taken is None or one.is_set is None):
            self._expected.pop(one.key, None)  # unknown
        if one.service and is_taken is not False:
            if one.is_set is not False:
                self._expected.pop(one.service, None)
            if not one.key:
                self._forget_instances(one.service)  # unknown which of them it refers to
        if not is_taken:
            return
        self.acknowledged[one.way] += 1
        if not one.key or one.is_set is None:
            return
        self._expected[one.key] = one.is_set, shown(one)
        if not one.is_set and one.key.startswith(SERVICE_META_PREFIX):  # with its persistent instances
            self._forget_instances(one.key)

    def _forget_instances(self, service: str) -> None:
        """Drop all expectations about the persistent instances of a service, given the key of its description."""
        instances = PERSISTENT_PREFIX + service.removeprefix(SERVICE_META_PREFIX) + NAMESPACE_SPLITTER
        for key in [key for key in self._expected if key.startswith(instances)]:
            del self._expected[key]

    async def _call(self, at: int, shot: Shot) -> bool | None:
        """Return whether a call was acknowledged; None without an answer."""
        try:
            status, body = await asyncio.to_thread(call, self._members[at].address, shot)
        except (OSError, ValueError) as error:
            print(f"no answer: {type(error).__name__}", flush=True)
            return None
        if shot.headers.get(MEMBER_HEADER):
            return status == 200 and not any(name in body for name in (b"failed", b"refused", b"wanted"))
        return None if status >= 500 else status == 200 and body != b"false"

    async def _ask(self, at: int, one: KeyInput) -> bool | None:
        fields = json.loads(json.dumps(one.fields))
        try:
            async with asyncio.timeout(GRPC_TIMEOUT_S):
                answer = await self._clients[at].call(one.request, **fields)
        except FAULTS as error:
            print(f"no answer over gRPC: {type(error).__name__}", flush=True)
            return None
        code = answer.get("resultCode")
        return None if code == 500 and answer.get("errorCode") == 503 else code == 200

    # --- stored data ----------------------------------------------------------------------------

    async def _settle_and_restart(self) -> None:
        before = await self._agreed()
        if before is not None:
            self._check_expected(before)
        await self._check_refusals()
        await self._restart()
        after = await self._agreed()
        if before is None or after is None:
            return
        if gone := sorted(before.keys() - after.keys()):
            self._breach(f"{len(gone)} records are gone after a restart: {gone[:SHOWN]}")
        if back := sorted(after.keys() - before.keys()):
            self._breach(f"{len(back)} records came back with a restart: {back[:SHOWN]}")
        if other := [key for key in before.keys() & after.keys() if before[key] != after[key]]:
            self._breach(f"{len(other)} records have another value after a restart: {other[:SHOWN]}")
        for member in self._members:
            metrics = await self._metrics(member)
            if found := {name: metrics[name] for name in ("recordsSetAside", "warmListsUnread") if metrics.get(name)}:
                self._breach(f"{member.address} could not read what it had written: {found}")

    def _check_expected(self, held: Held) -> None:
        for key, (is_set, text) in list(self._expected.items()):
            if (key in held) is not is_set:
                self._breach(f"{key[:300]!r} {'is missing' if is_set else 'is still there'}, acknowledged was {text}")
                del self._expected[key]

    async def _agreed(self) -> Held | None:
        """Wait until all members hold the same records; return them, None when they never agreed."""
        deadline_s = time.monotonic() + AGREED_TIMEOUT_S
        while True:
            records = [await self._fetch(member, RECORDS_TYPE) for member in self._members]
            lists = [await self._fetch(member, LISTS) for member in self._members]
            stored = [{key: (one["version"], one["value"]) for key, one in of.items()} for of in records]
            versions = [{key: one["version"] for key, one in of.items()} for of in lists]
            if all(one == stored[0] for one in stored) and all(one == versions[0] for one in versions):
                return {
                    key: _without_health(one["value"]) for key, one in records[0].items() if one["value"] is not None
                }
            if time.monotonic() > deadline_s:
                for what, found in (("records", stored), ("lists", versions)):
                    if differing := sorted(
                        {key for of in found for key in of if any(o.get(key) != of[key] for o in found)}
                    ):
                        states = [[str(of.get(key))[:200] for of in found] for key in differing[:SHOWN]]
                        self._breach(f"{len(differing)} {what} differ: {list(zip(differing, states, strict=False))}")
                return None
            await asyncio.sleep(POLL_S)

    async def _fetch(self, member: MemberProcess, resource_type: str) -> dict[str, Any]:
        other = next(one.address for one in self._members if one is not member)
        path = f"{DATUMS}?type={resource_type}" if resource_type else DATUMS
        return await asyncio.to_thread(fetch, member.address, path, other)

    async def _check_refusals(self) -> None:
        """Find members that keep refusing data of others, which they send again in each verify round.

        A member that is started may get a state of a run that it asks itself: it refuses that once.
        """
        before = [await self._refused(member) for member in self._members]
        for _ in range(REFUSING_ROUNDS):
            await asyncio.sleep(ROUNDS_S)
            after = [await self._refused(member) for member in self._members]
            if after == before:
                return
            last, before = before, after
        for member, count, more in zip(self._members, last, after, strict=True):
            if more != count:
                text = f"{member.address} keeps refusing data of other members: {more - count} keys in {ROUNDS_S} s"
                self._breach(text)

    async def _refused(self, member: MemberProcess) -> int:
        count: int = (await self._metrics(member))["receivedFailed"]
        return count

    async def _metrics(self, member: MemberProcess) -> Mapping[str, Any]:
        status, body = await asyncio.to_thread(call, member.address, Shot("GET", METRICS, b""))
        if status != 200:
            raise RuntimeError(f"{member.address} answers {METRICS} with {status}")
        found: dict[str, Any] = orjson.loads(body)
        return found

    # --- restarts ------------------------------------------------------------------------------------

    async def _restart(self) -> None:
        await self._hang_up()
        kills = self.restarts % KILLED_EVERY == KILLED_EVERY - 1
        for member in self._members:
            if kills:
                await asyncio.to_thread(member.kill_all)
            elif code := await asyncio.to_thread(_stop, member):
                self._breach(f"{member.address} ended with exit code {code}")
        await self._start()
        self.restarts += 1

    async def _start(self) -> None:
        await asyncio.to_thread(start_all, self._members, HANG_S)
        for member in self._members:
            client = SdkClient(int(member.address.rpartition(":")[2]) + SDK_OFFSET)
            await client.__aenter__()
            self._clients.append(client)
            await client.set_up(abilities=ABILITIES)

    async def _hang_up(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()


def shown(one: KeyInput) -> str:
    """An input in words, cut to a line."""
    if one.shot is None:
        return f"{one.request} {str(one.fields)[:600]}"
    return f"{one.shot.method} {one.shot.path[:600]} {one.shot.body[:600]!r}"


def _without_health(value: Any) -> Any:
    """A record's value without the fields that health checks change."""
    return {name: one for name, one in value.items() if name != "healthy"} if isinstance(value, dict) else value


def _stop(member: MemberProcess) -> int:
    try:
        return member.stop(HANG_S)
    except subprocess.TimeoutExpired:
        member.kill_all()
        return -1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same inputs")
    parser.add_argument("--between", type=int, default=BETWEEN_RESTARTS, help="inputs between two restarts (100)")
    add_port(parser)
    parser.add_argument("--logs", type=Path, help="folder for the members' logs and data")
    add_rollcall(parser)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drill; return 0 when the members kept all acknowledged writes."""
    options = _options(arguments)
    folder = drill_folder(options.logs)
    with local_members(MEMBERS, options.port, folder, SETTINGS, options.rollcall) as members:
        drill = Kept(members, options.inputs, options.seed, options.between)
        rows = asyncio.run(drill.run())
    print(table(rows), flush=True)
    for way, count in sorted(drill.answers.items()):
        print(f"{way}: {count}, of which {drill.acknowledged[way]} were acknowledged")
    return 1 if any(row.is_breach for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
