"""The subscribers of a soak, in a separate process: ``ACCESS-FILE COUNT``.

Half use gRPC, and get their service with each change; half query it every 10 s as v1 does, at one member after the
other. No subscriber may ever see a service without instances, because each service has fifty that beat.
"""

import asyncio
import collections
import contextlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import grpc
import orjson
import uvloop
from grpc import aio

from app.peers import payload
from scripts.soak.soaked import SDK_OFFSET, Access, service_of
from scripts.soak.wire import Lines

POLL_S = 10.0
HEALTH_S = 5.0
CALL_S = 5.0
REST_S = 1.0
EXAMPLES = 5


class Seen:
    """Counts of the lists that subscribers received."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.examples: list[str] = []

    def note(self, way: str, service: str, hosts: int) -> None:
        self.counts[way] += 1
        if not hosts:
            self.counts["empty"] += 1
            if len(self.examples) < EXAMPLES:
                self.examples.append(f"{way}: {service}")


async def poll(number: int, lines: Lines, seen: Seen) -> None:
    """A subscriber of v1, for ever."""
    service = service_of(number)
    await asyncio.sleep(random.random() * POLL_S)
    while True:
        for turn in range(len(lines.members)):
            line = lines.line(number, turn)
            status, body = await line.ask("GET", "/v1/ns/instance/list", serviceName=service)
            if status == 200:
                seen.note("lists read", service, len(orjson.loads(body)["hosts"]))
                break
        else:
            seen.counts["lists that no member gave"] += 1
        await asyncio.sleep(POLL_S)


class GrpcSubscriber:
    """A subscriber of 2.x: one connection, to the next member when it ends."""

    def __init__(self, number: int, access: Access, lines: Lines, seen: Seen) -> None:
        self._number = number
        self._access = access
        self._lines = lines
        self._seen = seen
        self._service = service_of(number)

    async def live(self) -> None:
        ports = self._access.ports
        at = self._number
        while True:
            with contextlib.suppress(grpc.RpcError, aio.BaseError, TimeoutError, payload.PayloadError):
                await self._connected(ports[at % len(ports)] + SDK_OFFSET)
            self._seen.counts["connections that ended"] += 1
            at += 1
            await asyncio.sleep(REST_S)

    def _channel(self, port: int) -> aio.Channel:
        target, options = f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]
        if not self._access.ca:
            return aio.insecure_channel(target, options=options)
        trusted = grpc.ssl_channel_credentials(Path(self._access.ca).read_bytes())
        return aio.secure_channel(target, trusted, options=options)

    def _message(self, kind: str, **fields: Any) -> bytes:
        token = self._lines.token
        return payload.encode(kind, orjson.dumps(fields), headers={"accessToken": token} if token else None)

    async def _connected(self, port: int) -> None:
        async with self._channel(port) as channel:
            call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(payload.REQUEST_METHOD)
            await call(self._message("ServerCheckRequest"), timeout=CALL_S)
            streams: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(payload.STREAM_METHOD)
            stream = streams()
            labels = {"source": "sdk", "module": "naming"}
            await stream.write(self._message("ConnectionSetupRequest", clientVersion="Nacos-Soak:v2.0", labels=labels))
            reading = asyncio.create_task(self._read(stream))
            try:
                subscribed = False
                while not reading.done():
                    if not subscribed:
                        subscribed = await self._subscribe(call)
                    await call(self._message("HealthCheckRequest"), timeout=CALL_S)
                    await asyncio.wait((reading,), timeout=HEALTH_S if subscribed else REST_S)
                reading.result()
            finally:
                reading.cancel()

    async def _subscribe(self, call: Any) -> bool:
        fields = {"serviceName": self._service, "groupName": "DEFAULT_GROUP", "namespace": "", "subscribe": True}
        answer = payload.decode(await call(self._message("SubscribeServiceRequest", **fields), timeout=CALL_S)).json()
        if not answer.get("success"):
            self._seen.counts["subscriptions refused"] += 1
            return False
        self._seen.note("subscriptions answered", self._service, len(answer["serviceInfo"]["hosts"]))
        return True

    async def _read(self, stream: Any) -> None:
        while (data := await stream.read()) is not aio.EOF:
            message = payload.decode(data)
            fields = message.json()
            if message.type == "NotifySubscriberRequest":
                self._seen.note("pushes", self._service, len(fields["serviceInfo"]["hosts"]))
            if request_id := fields.get("requestId"):
                answer = {"requestId": request_id, "resultCode": 200, "errorCode": 0}
                await stream.write(payload.encode_json(message.type.replace("Request", "Response"), answer))
            if message.type == "ConnectResetRequest":
                return


async def _run(access: Access, count: int) -> None:
    lines, seen = Lines(access), Seen()
    await lines.open()
    tasks = [asyncio.create_task(poll(number, lines, seen)) for number in range(count // 2)]
    for number in range(count // 2, count):
        tasks.append(asyncio.create_task(GrpcSubscriber(number, access, lines, seen).live()))
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    faults = [repr(one) for one in ended if not isinstance(one, asyncio.CancelledError)]
    print(json.dumps({"seen": dict(seen.counts), "examples": seen.examples, "faults": faults}), flush=True)


if __name__ == "__main__":
    uvloop.run(_run(Access.read(Path(sys.argv[1])), int(sys.argv[2])))
