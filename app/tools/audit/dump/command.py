"""``rollcall dump``: every member's state at about one moment, twice, as files for the check."""

import argparse
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.languages.command_texts import gettext
from app.languages.phrases import phrase, reason_of
from app.tools.audit.client.access import (
    AccessError,
    add_access_options,
    add_member_options,
    duration_s,
    members_of,
    names_of,
)
from app.tools.audit.client.arguments import days_argument, night_argument, run_argument
from app.tools.audit.format.part_format import PartFormat, has_parquet
from app.tools.printable import json_text

if TYPE_CHECKING:
    from app.tools.audit.dump.collect import Dumped, Plan
    from app.tools.audit.dump.store import Store

ALL_DUMPED, SOME_ABSENT, NOTHING_DUMPED = 0, 1, 2


def add_to(subparsers: Any) -> None:
    """Add the command to a parser's commands."""
    parser = subparsers.add_parser(
        "dump",
        help="write the state of every member to files, for the audit",
        description="Write the state of every member, of Rollcall, Nacos 1.4, Nacos 2.x or r-nacos, at one moment "
        "and twice. A member that does not answer is recorded as absent.",
        epilog="Exit code: 0 all members were dumped, 1 a member is absent, 2 nothing was dumped or written.",
    )
    add_member_options(parser)
    parser.add_argument("--out", metavar="URI", required=True, help="a folder, or any URI of fsspec (s3://, hdfs://)")
    parser.add_argument(
        "--gap", metavar="TIME", type=duration_s, default=15.0, help="from the start of a round to the next (15s)"
    )
    parser.add_argument("--keep", metavar="DAYS", type=days_argument, help="remove nights that are older (keep all)")
    parser.add_argument(
        "--namespaces",
        metavar="ID,...",
        action="append",
        default=[],
        help="further namespaces that members may not list",
    )
    parser.add_argument(
        "--date", metavar="YYYY-MM-DD", type=night_argument, help="the night that it belongs to (today, UTC)"
    )
    parser.add_argument(
        "--run", dest="run_id", type=run_argument, metavar="ID", help="name of this run in its manifests (random)"
    )
    parser.add_argument(
        "--format",
        choices=[one.value for one in PartFormat],
        help="format of the files: parquet, or json without the package pyarrow",
    )
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show a bar (on a terminal it is shown)"
    )
    parser.add_argument("--json", action="store_true", help="print members and counts as JSON instead of the folder")
    add_access_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Take the dump and print its folder; return the exit code."""
    from app.tools.audit.client.http_client import CallError
    from app.tools.audit.dump.collect import Plan, ProgressBar, listed_members, take_dump
    from app.tools.audit.dump.store import Store, StoreError

    began_s = time.monotonic()
    try:
        access, addresses, url_address = members_of(options)
        night = options.date or f"{datetime.now(UTC):%Y-%m-%d}"
        store = Store(options.out)
        store.check_writable(f"{store.root}/dump_date={night}")
        if url_address:
            try:
                addresses = listed_members(url_address, access)
            except CallError as error:
                raise AccessError(
                    phrase("no member list of %(server)s: %(error)s", server=url_address, error=error)
                ) from None
        plan = Plan(
            addresses, night, access, options.gap, names_of(options.namespaces), _format(options), options.run_id
        )
        with closing(ProgressBar(sys.stderr, options.progress)) as bar:
            dumped = take_dump(plan, store, bar)
        _tell(options, plan, store, dumped)
        if dumped.is_empty():
            return NOTHING_DUMPED
        if options.keep is not None:
            _remove_old(store, night, options.keep)
        _tell_end(dumped, time.monotonic() - began_s)
    except (AccessError, StoreError) as error:
        print(f"rollcall: {reason_of(error)}", file=sys.stderr)
        return NOTHING_DUMPED
    except KeyboardInterrupt:
        text = gettext("interrupted before the dump was complete; its last round has no manifest")
        print(f"rollcall: {text}", file=sys.stderr)
        return NOTHING_DUMPED
    return SOME_ABSENT if dumped.absent() else ALL_DUMPED


def _format(options: argparse.Namespace) -> PartFormat:
    """Return the format of the files.

    Raises:
        StoreError: Parquet is asked for, and this Python cannot write it.
    """
    from app.tools.audit.dump.store import StoreError

    if options.format is None:
        return PartFormat.PARQUET if has_parquet() else PartFormat.JSON
    if options.format == PartFormat.PARQUET and not has_parquet():
        raise StoreError(gettext("--format parquet needs the package pyarrow: pip install 'rollcall-registry[audit]'"))
    return PartFormat(options.format)


def _tell(options: argparse.Namespace, plan: "Plan", store: "Store", dumped: "Dumped") -> None:
    """Print the folder of the dump, or all as JSON, to standard output; counts and absent members to standard error."""
    for manifest in dumped.manifests:
        there = [one for one in manifest.members if not one.error]
        text = gettext(
            "round %(round)s: %(count)s of %(total)s members, %(services)s services, %(instances)s instances",
            round=manifest.round,
            count=len(there),
            total=len(manifest.members),
            services=sum(one.services for one in there),
            instances=sum(one.instances for one in there),
        )
        print(text, file=sys.stderr)
    for number, member in dumped.absent():
        text = gettext(
            "round %(round)s: member %(address)s is absent: %(error)s",
            round=number,
            address=member.address,
            error=member.error,
        )
        print(f"rollcall: {text}", file=sys.stderr)
    folder = store.shown(f"{store.root}/dump_date={plan.dump_date}")
    print(json_text({"folder": folder, "rounds": _rounds(dumped)}) if options.json else folder)


def _tell_end(dumped: "Dumped", took_s: float) -> None:
    """Write the last line to standard error: how many members are in the dump, and how long it took."""
    named = {one.address for manifest in dumped.manifests for one in manifest.members}
    absent = {member.address for _, member in dumped.absent()}
    text = gettext(
        "dumped %(count)s of %(total)s members in %(rounds)s rounds; took %(seconds)s s",
        count=len(named - absent),
        total=len(named),
        rounds=len(dumped.manifests),
        seconds=f"{took_s:.1f}",
    )
    print(f"rollcall: {text}", file=sys.stderr)


def _rounds(dumped: "Dumped") -> list[dict[str, Any]]:
    """Return the rounds of a dump. Shape: round, takenAt, members: address, state, kind, version, counts, error."""
    return [
        {
            "round": manifest.round,
            "takenAt": manifest.taken_at,
            "members": [
                {
                    "address": one.address,
                    "state": one.state.value,
                    "kind": one.kind,
                    "version": one.version,
                    "services": one.services,
                    "instances": one.instances,
                    "error": one.error or None,
                }
                for one in manifest.members
            ],
        }
        for manifest in dumped.manifests
    ]


def _remove_old(store: "Store", night: str, keep_days: int) -> None:
    from app.tools.audit.dump.store import first_kept

    for removed in store.remove_nights_before(first_kept(night, keep_days)):
        print(gettext("removed the night %(night)s", night=removed), file=sys.stderr)
