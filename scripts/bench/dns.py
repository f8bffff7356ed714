"""Measure what DNS queries at a steady rate cost a member and its beats; queries and beats have a process each.

Starts a standalone member with ``--services`` services of ``--hosts`` instances, all of which beat. Measures the beats
alone, then beside ``--rate`` queries a second: three for A and one for SRV of each service in turn. Prints a JSON line:
the p50, p99 and maximum of both in ms, and the CPU time of a query in us, without the CPU time of the beats.
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Sequence
from urllib.parse import urlencode

from app.config.dns_settings import PORT_OFFSET
from scripts.bench.idle import cpu_s
from scripts.support.arguments import add_port
from scripts.support.beat_load import Figures, InstanceLoad, beating, figures
from scripts.support.dns_load import Asked, asking
from scripts.support.member_processes import CONTEXT_PATH, MemberProcess, running_members

SLOW_MS = 50.0
SETTINGS = {
    "nacos.standalone": "true",
    "rollcall.dns.enabled": "true",
    "rollcall.dns.rate.perSecondPerAddress": "0",
}
CALL_TIMEOUT_S = 10.0
WARM_S = 1.0


def register(address: str, load: InstanceLoad) -> None:
    """Register all instances of the load."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=CALL_TIMEOUT_S)
    for service, ip in load.instances():
        query = urlencode({"serviceName": service, "ip": ip, "port": 8080})
        connection.request("POST", f"{CONTEXT_PATH}/v1/ns/instance?{query}")
        answer = connection.getresponse()
        if answer.read() != b"ok":
            raise RuntimeError(f"{service} {ip} was not registered: {answer.status}")
    connection.close()


def measure(member: MemberProcess, options: argparse.Namespace) -> dict[str, object]:
    """The figures of one run."""
    load = InstanceLoad(options.services, options.hosts)
    register(member.address, load)
    host, _, port = member.address.rpartition(":")
    names = [f"{load.name}-{number}.rollcall" for number in range(options.services)]
    worker = member.pids()[1]

    def ask(rate: int, seconds: float) -> Asked:
        return asking(host, int(port) + PORT_OFFSET, rate, seconds, names)

    with beating(member.address, load, options.beats) as beats:
        ask(max(options.rate // 10, 1), WARM_S)
        alone_s, alone_cpu_s = time.time(), cpu_s(worker)
        time.sleep(options.alone)
        begin_s, begin_cpu_s = time.time(), cpu_s(worker)
        asked = ask(options.rate, options.seconds)
        end_s, end_cpu_s = time.time(), cpu_s(worker)
        beaten = beats.end()
    of_beats_s = (begin_cpu_s - alone_cpu_s) / (begin_s - alone_s) * (end_s - begin_s)
    return {
        "queries": asked.sent,
        "answered": len(asked.times_ms),
        "with_records": asked.with_records,
        "per_second": round(asked.sent / options.seconds),
        "cpu_us_per_query": round((end_cpu_s - begin_cpu_s - of_beats_s) / asked.sent * 1e6, 1),
        "dns_ms": shown(figures(asked.times_ms, SLOW_MS)),
        "beats_ms": shown(figures(beaten.between(begin_s, end_s), SLOW_MS)),
        "beats_alone_ms": shown(figures(beaten.between(alone_s, begin_s), SLOW_MS)),
        "beats_failed": sum(beaten.failures.values()),
        "load_late_ms_max": round(asked.late_ms_max, 1),
    }


def shown(found: Figures) -> dict[str, float]:
    return {"p50": round(found.p50_ms, 2), "p99": round(found.p99_ms, 2), "max": round(found.max_ms, 2)}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_port(parser)
    parser.add_argument("--rate", type=int, default=10_000, help="queries a second; default %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="of queries; default %(default)s")
    parser.add_argument("--alone", type=float, default=3.0, help="seconds of beats alone; default %(default)s")
    parser.add_argument("--beats", type=int, default=300, help="beats a second; default %(default)s")
    parser.add_argument("--services", type=int, default=100, help="default %(default)s")
    parser.add_argument("--hosts", type=int, default=10, help="instances of a service; default %(default)s")
    options = parser.parse_args(words)
    with running_members(1, options.port, SETTINGS) as [member]:
        print(json.dumps(measure(member, options)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
