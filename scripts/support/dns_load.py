"""Timed DNS queries at a steady rate, sent by a separate process. Linux only.

``python -m scripts.support.dns_load ADDRESS PORT RATE SECONDS NAME ...`` prints JSON: the times of answers in ms, the
number of queries sent, and the number of answers with records.
"""

import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.dns.dns_query import HEADER, name_of
from app.dns.resource_records import SRV, A, opt_record
from scripts.support.beat_load import SECONDS_NS, SO_TIMESTAMPNS

ROOT = Path(__file__).resolve().parents[2]
ANSWER_TIMEOUT_S = 2.0
"""Wait after the last query."""
IDS = 65_536
TYPES = (A, A, A, SRV)
BURST = 16
"""Queries sent in a row after a delay: more are skipped, or the load would come in bursts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcomes of all queries of a load."""

    sent: int
    times_ms: list[float]
    with_records: int
    late_ms_max: float
    """The largest delay of the load itself, a measure of how busy the machine is."""


def packets(names: Sequence[str]) -> list[bytes]:
    """The queries without their ids, mostly for addresses, some for SRV records."""
    found = []
    for name in names:
        wire = name_of([label.encode() for label in name.split(".")]) + b"\0"
        for qtype in TYPES:
            question = wire + struct.pack("!HH", qtype, 1)
            found.append(HEADER.pack(0, 0x0100, 1, 0, 0, 1)[2:] + question + opt_record(0))
    return found


def run(host: str, port: int, rate: int, seconds: float, names: Sequence[str]) -> Asked:
    """Send, wait and record."""
    asked = packets(names)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        client.connect((host, port))
        client.setblocking(False)
        sent_s: dict[int, float] = {}
        times_ms: list[float] = []
        sent = with_records = 0
        late_ms_max = 0.0
        begin_s = time.time()
        end_s = begin_s + seconds
        while (now_s := time.time()) < end_s + ANSWER_TIMEOUT_S:
            due = min(int((now_s - begin_s) * rate), int(seconds * rate)) - sent
            for _ in range(min(due, BURST)):
                late_ms_max = max(late_ms_max, (time.time() - begin_s - sent / rate) * 1_000)
                sent_s[sent % IDS] = time.time()
                client.send((sent % IDS).to_bytes(2) + asked[sent % len(asked)])
                sent += 1
            if not sent_s and now_s >= end_s:
                break
            if not select.select([client], [], [], 0 if due > BURST else 1 / rate)[0]:
                continue
            try:
                while True:
                    reply, extra, _, _ = client.recvmsg(4_096, 64)
                    since_s = sent_s.pop(int.from_bytes(reply[:2]), None)
                    if since_s is not None:
                        times_ms.append(max(_arrival_s(extra) - since_s, 0.0) * 1_000)
                        with_records += reply[7] > 0
            except BlockingIOError:
                continue
    return Asked(sent, times_ms, with_records, late_ms_max)


def _arrival_s(extra: Sequence[tuple[int, int, bytes]]) -> float:
    """The time when the kernel received the datagram, by the wall clock."""
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("qq", data)
            return float(seconds + nanoseconds / SECONDS_NS)
    return time.time()


def asking(host: str, port: int, rate: int, seconds: float, names: Sequence[str]) -> Asked:
    """Run the load in a separate process, and wait for its end."""
    words = [host, str(port), str(rate), str(seconds), *names]
    command = [sys.executable, "-m", "scripts.support.dns_load", *words]
    ended = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True, timeout=seconds * 3 + 60)
    return Asked(**json.loads(ended.stdout))


def main(words: Sequence[str]) -> None:
    host, port, rate, seconds, *names = words
    found = run(host, int(port), int(rate), float(seconds), names)
    print(json.dumps({name: getattr(found, name) for name in Asked.__slots__}))


if __name__ == "__main__":
    main(sys.argv[1:])
