"""Sends decompression bombs, eight at once, from ``go`` to ``halt``: ``KIND MEMBER ...``. For ``hostile.py``."""

import collections
import itertools
import json
import os
import select
import sys
from concurrent.futures import ThreadPoolExecutor

from scripts.chaos.hostile_calls import send
from scripts.chaos.hostile_corpus import bombs

AT_ONCE = 8
NICE = 5


def main() -> int:
    kind, *members = sys.argv[1:]
    os.nice(NICE)
    senders = members[1:] + members[:1]
    shots = itertools.cycle(
        [(to, one) for to, sender in zip(members, senders, strict=True) for one in bombs(sender)[kind]]
    )
    print("ready", flush=True)
    while word := os.read(sys.stdin.fileno(), 64):
        if word != b"go\n":
            continue
        counts: collections.Counter[str] = collections.Counter()

        def go_on(counts: collections.Counter[str] = counts) -> None:
            while not select.select([sys.stdin], [], [], 0)[0]:
                counts[send(*next(shots))] += 1

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for ended in [pool.submit(go_on) for _ in range(AT_ONCE)]:
                ended.result()
        print(json.dumps(counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
