"""Measure how long a change in one cluster takes to become visible in another one that is linked with it.

Starts two clusters on this machine. A relay between them holds each byte back for half of ``--round-trip-ms``, so that
a link meets the network of two data centres. Registers ``--instances`` in one cluster, and waits until the other one
shows them all. Then one process changes ``--rate`` instances a second, and another one registers new instances, one
after the other, and polls each member of the other cluster every 2 ms until it shows them. Prints one JSON line: the
times in ms, from the registering call, until the first and until the last of these members showed a change; the bytes
and the changes that all links took meanwhile.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from scripts.bench.convergence import Member, percentiles_ms, seconds_until, steady_changes
from scripts.support.arguments import add_port
from scripts.support.member_processes import CONTEXT_PATH, PORT_STEP, running_members

LIVES_MS = 86_400_000
"""The beat and delete time-outs of the instances, which nobody beats for."""
SERVICE_HOSTS = 10
FILL_CALLS = 8
SHOWN_TIMEOUT_S = 300.0
CHUNK_BYTES = 65_536


class Relay:
    """Carries TCP connections to ``targets``, and each byte late. Runs on a thread of its own."""

    def __init__(self, targets: Sequence[str], delay_s: float) -> None:
        self.addresses: list[str] = []
        """Its own addresses, in the order of the targets."""
        self._targets, self._delay_s = targets, delay_s
        self._loop = asyncio.new_event_loop()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> "Relay":
        self._pool.submit(self._loop.run_forever)
        for target in self._targets:
            begun = asyncio.start_server(partial(self._serve, target), "127.0.0.1", 0)
            [listening] = asyncio.run_coroutine_threadsafe(begun, self._loop).result().sockets
            self.addresses.append(f"127.0.0.1:{listening.getsockname()[1]}")
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._pool.shutdown()

    @staticmethod
    async def _end() -> None:
        """End all connections."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _serve(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        try:
            to_reader, to_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):  # the relay ends
            await asyncio.gather(self._carry(reader, to_writer), self._carry(to_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                self._loop.call_later(self._delay_s, writer.write, data)
        self._loop.call_later(self._delay_s, writer.close)


def fill(urls: Sequence[str], instances: int) -> None:
    """Register instances, ten in each service, through all members."""
    metadata = json.dumps({"preserved.heart.beat.timeout": LIVES_MS, "preserved.ip.delete.timeout": LIVES_MS})

    def run(first: int) -> None:
        member = Member(urls[first % len(urls)])
        for number in range(first, instances, FILL_CALLS):
            ip = f"10.{20 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
            assert member.register(f"filled-{number // SERVICE_HOSTS}", ip, metadata) == 200

    with ThreadPoolExecutor(FILL_CALLS) as pool:
        for future in [pool.submit(run, first) for first in range(FILL_CALLS)]:
            future.result()


def links_of(url: str) -> list[dict[str, int]]:
    """Return the link of each member of a cluster."""
    status, body = Member(url).call("GET", "/v1/ns/link/list")
    assert status == 200, body
    return [link for member in json.loads(body)["members"] for link in member["links"]]


def wait_until_shown(url: str, instances: int) -> float:
    """Wait until each member has so many instances by its link; return the time in s."""
    begun_s = time.monotonic()
    while not all(link["instances"] >= instances for link in links_of(url)):
        if time.monotonic() - begun_s > SHOWN_TIMEOUT_S:
            raise RuntimeError(f"after {SHOWN_TIMEOUT_S:.0f} s the links have {links_of(url)}")
        time.sleep(0.2)
    return time.monotonic() - begun_s


def measure(there: Sequence[str], here: Sequence[str], options: argparse.Namespace) -> dict[str, object]:
    """Make the changes in one cluster, and return the printed figures."""
    fill(there, options.instances)
    caught_up_s = wait_until_shown(here[0], options.instances)
    writers, readers = [Member(url) for url in there], [Member(url) for url in here]
    first_s, all_s, lost = list[float](), list[float](), 0
    with steady_changes(there, options.rate):
        before, begun_s = links_of(here[0]), time.monotonic()
        for number in range(options.changes):
            service, ip = f"timed-{number % 100}", f"10.9.{number // 250}.{number % 250 + 1}"
            at_s = time.perf_counter()
            assert writers[number % len(writers)].register(service, ip) == 200
            times = seconds_until(readers, service, ip, at_s, options.timeout_s)
            shown = [one for one in times if one is not None]
            lost += len(times) - len(shown)
            if shown:
                first_s.append(min(shown))
                all_s.append(max(shown))
        took_s, after = time.monotonic() - begun_s, links_of(here[0])
    changes, size = (
        sum(one[name] for one in after) - sum(one[name] for one in before) for name in ("changes", "bytes")
    )
    return {
        "instances": options.instances,
        "rate": options.rate,
        "round_trip_ms": options.round_trip_ms,
        "caught_up_s": round(caught_up_s, 1),
        "timed": options.changes,
        "lost": lost,
        "first": percentiles_ms(first_s),
        "all": percentiles_ms(all_s),
        "changes_per_s": round(changes / took_s, 1),
        "bytes_per_change": round(size / changes) if changes else None,
    }


@contextlib.contextmanager
def linked_clusters(options: argparse.Namespace) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the URLs of the members of two clusters, of which the second follows the first through the relay."""
    count, port = options.members, options.port
    with running_members(count, port, {"rollcall.cluster.id": "there"}) as there:
        addresses = [one.address for one in there]
        with Relay(addresses, options.round_trip_ms / 2_000) as relay:
            link = {"rollcall.cluster.id": "here", "rollcall.link.there.servers": ",".join(relay.addresses)}
            with running_members(count, port + count * PORT_STEP, link) as here:
                yield (
                    [f"http://{one.address}{CONTEXT_PATH}" for one in there],
                    [f"http://{one.address}{CONTEXT_PATH}" for one in here],
                )


def main() -> int:
    """Measure; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_port(parser)
    parser.add_argument("--members", type=int, default=3, help="members of each cluster")
    parser.add_argument("--instances", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=300, help="timed changes")
    parser.add_argument("--rate", type=float, default=50, help="other changes a second in the background")
    parser.add_argument("--round-trip-ms", type=float, default=40, help="of the network between the clusters")
    parser.add_argument("--timeout-s", type=float, default=15.0, help="seconds after which a change counts as lost")
    options = parser.parse_args()
    with linked_clusters(options) as (there, here):
        result = measure(there, here, options)
    print(json.dumps(result))
    return 1 if result["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())
