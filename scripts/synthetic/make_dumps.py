"""Makes a dump of any size, as ``rollcall dump`` writes it, with planted faults of each class that the check knows.

Beside the dump lies ``planted-<date>.jsonl``: one line for each finding that the check must make, and no other. Prints
one JSON line: what was made and how fast. Exit code 2 when it cannot be made.
"""

import argparse
import sys
import time
from datetime import date

import orjson

from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.dump import SHAPES, SyntheticDump, all_faults, counts, make_dump
from scripts.synthetic.faults import LATE
from scripts.synthetic.services import MemberKind


def parse_faults(text: str, members: int, kind: MemberKind) -> dict[str, int]:
    """Counts by name, of ``none``, ``all=3`` or ``MISSING=3,EXTRA=2``; after ``all=3`` other counts override.

    Raises:
        ValueError: the text has none of these forms.
    """
    faults: dict[str, int] = {}
    for pair in text.split(",") if text != "none" else []:
        name, equals, count = pair.strip().partition("=")
        if not equals or not (count.isascii() and count.isdecimal()):
            raise ValueError(f"{pair.strip()!r} is no NAME=COUNT, as in MISSING=3")
        faults.update(all_faults(int(count), members, kind) if name == "all" else {name: int(count)})
    return faults


def main() -> int:
    options = parser().parse_args()
    begun_s = time.perf_counter()
    kind = MemberKind(options.kind)
    try:
        faults = parse_faults(options.faults, options.members, kind)
        if options.late:
            faults[LATE] = options.late
        written = make_dump(
            SyntheticDump(
                out=options.out,
                instances=options.instances,
                members=options.members,
                seed=options.seed,
                per_service=options.per_service,
                faults=faults,
                date=options.date.isoformat(),
                kind=kind,
                part_format=PartFormat(options.format),
                rows_per_part=options.rows_per_part,
                shape=options.shape,
                last_is_behind=options.last_is_behind,
            )
        )
    except (ValueError, OSError) as error:
        print(f"make_dumps: {error}", file=sys.stderr)
        return 2
    took_s = time.perf_counter() - begun_s
    report = {
        "folders": written.folders,
        "services": written.services,
        "instances": written.instances,
        "rows": written.rows,
        "bytes": written.bytes,
        "plain_bytes": written.plain_bytes,
        "planted": counts(written.planted),
        "took_s": round(took_s, 2),
        "rows_per_s": round(written.rows / took_s),
    }
    print(orjson.dumps(report).decode())
    return 0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m scripts.synthetic.make_dumps", description=(__doc__ or "").partition("\n")[0]
    )
    options.add_argument("--out", metavar="URI", required=True, help="folder, or URI of fsspec")
    options.add_argument("--members", type=int, default=3, help="how many members (3)")
    options.add_argument("--instances", type=int, required=True, help="how many instances each member holds, about")
    options.add_argument("--seed", type=int, default=1, help="the same seed and options make the same bytes (1)")
    options.add_argument("--per-service", type=int, default=10, help="instances of a service, on average (10)")
    options.add_argument("--faults", metavar="NAME=N,...|all=N|none", default="none", help="faults to plant (none)")
    options.add_argument("--late", type=int, default=0, metavar="N", help="transient differences to plant (0)")
    options.add_argument("--date", type=date.fromisoformat, default=date.today(), help="the night (today)")
    options.add_argument(
        "--kind",
        choices=[kind.value for kind in MemberKind],
        default=MemberKind.ROLLCALL.value,
        help="nacos-1 reports no versions; catalog reports neither versions nor owners and beats (rollcall)",
    )
    options.add_argument(
        "--format",
        choices=[one.value for one in PartFormat],
        default=PartFormat.PARQUET.value,
        help="of the files (parquet)",
    )
    options.add_argument("--rows-per-part", type=int, default=100_000, help="rows of a file, about (100000)")
    options.add_argument("--shape", choices=SHAPES, default=SHAPES[0], help="skewed: one service holds a tenth of all")
    options.add_argument("--last-is-behind", action="store_true", help="one member has all data under earlier versions")
    return options


if __name__ == "__main__":
    sys.exit(main())
