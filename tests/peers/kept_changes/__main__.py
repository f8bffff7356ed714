"""Make operators' changes at three members and write how long each is kept: ``python -m tests.peers.kept_changes``."""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.network import FOLDER, Network, run_in_own_namespaces, unable
from tests.peers.kept_changes.members import COUNT, MEMBERS, Members
from tests.peers.kept_changes.stages import Run


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.kept_changes", description=__doc__)
    parser.add_argument("members", choices=sorted(MEMBERS), help="real Nacos 2.3.1, or Rollcall")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="write what was found to a file")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the members' logs there")
    return parser.parse_args()


def main() -> int:
    """Run in network namespaces of our own; return the exit code."""
    options = _options()
    if FOLDER not in os.environ:
        if reason := unable():
            print(reason, file=sys.stderr)
            return 2
        return run_in_own_namespaces(["-m", "tests.peers.kept_changes", *sys.argv[1:]])
    folder = Path(tempfile.mkdtemp(dir=os.environ[FOLDER]))
    network = Network(COUNT)
    members = MEMBERS[options.members](network, folder)
    try:
        found = asyncio.run(_run(members, options.members == "real"))
        options.json.write_text(json.dumps(found, indent=1))
    except BaseException:
        for log in folder.glob("*.log"):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        raise
    finally:
        if options.logs is not None:
            options.logs.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, options.logs)
        members.end()
        network.end()
    return 0


async def _run(members: Members, is_real: bool) -> dict[str, object]:
    begun_s = time.monotonic()

    def note(text: str) -> None:
        print(f"{time.monotonic() - begun_s:6.1f} s  {text}", flush=True)

    await asyncio.to_thread(members.start)
    note("started")
    return await Run(members, is_real, note).all()


if __name__ == "__main__":
    sys.exit(main())
