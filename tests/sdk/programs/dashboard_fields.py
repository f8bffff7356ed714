"""Reads dashboards with Grafana's own types, and prints each field that they lack. Exit code 1 if there is one."""

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(given: Any, kept: Any, path: str) -> list[str]:
    """Return the paths of what is given and not kept."""
    if isinstance(given, dict) and isinstance(kept, dict):
        missing = [f"{path}.{name}" for name in given if name not in kept]
        return missing + [
            one for name in given if name in kept for one in lost(given[name], kept[name], f"{path}.{name}")
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [one for at, pair in pairs for one in lost(*pair, f"{path}[{at}]")]
    return [] if given == kept else [path]


def main() -> int:
    found = []
    for name in sys.argv[1:]:
        given = json.loads(Path(name).read_text(encoding="utf-8"))
        kept = json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))
        found += lost(given, kept, Path(name).name)
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
