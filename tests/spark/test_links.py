"""The check over the dumps of linked clusters: each planted fault of a link is told, and nothing else."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.rows.rows import encode_row, linked_row
from app.tools.audit.check.check import CannotJudge
from app.tools.audit.format.layout import member_folders
from app.tools.audit.format.manifest import MANIFEST_NAME, Link, Part, decode_manifest, encode_manifest
from app.tools.audit.report.report import render
from tests.spark.conftest import findings, judged
from tests.support.dumps import instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
NIGHT = "2026-11-20"
HERE, THERE = ("10.0.0.1:8848", "10.0.0.2:8848"), ("10.9.0.1:8848", "10.9.0.2:8848", "10.9.0.3:8848")
NAMES = [f"DEFAULT_GROUP@@svc{number}" for number in range(4)]
COUNT = 40
Row = dict[str, Any]
LINK = Link("to-b", "dc-b", ["*"], ["*"], ["svc*", "!svc3"], {"public": "of-b"}, 2_000)
UNHEARD, ELSEWHERE = Link("mute", "", servers=[THERE[1]]), Link("to-c", "dc-c")


def registered() -> list[Row]:
    """All instances of dc-b: ten of each of four services."""
    return [
        instance(
            number, service=NAMES[number % 4], owner=THERE[0], version=f"1.1.{THERE[0]}~a", metadata={"n": str(number)}
        )
        for number in range(COUNT)
    ]


def brought(row: Row, stale_ms: int | None = None, **values: Any) -> Row:
    """An instance of dc-b as a member of dc-a has it: its namespace has another name there."""
    return linked_row(row | {"namespace": "of-b"} | values, "to-b", "dc-b", 60_000, stale_ms)


def dump(
    root: Path,
    cluster: str,
    rows: Mapping[str, list[Row]],
    linked: Mapping[str, tuple[list[Row], list[Row]]],
    links: list[Link],
) -> str:
    """Write both rounds of a cluster; ``linked``: what each member has by links, in each round."""
    names = member_folders(rows)
    for place, folder in enumerate(write_dump(root, rows)):
        manifest = decode_manifest((folder / MANIFEST_NAME).read_bytes())
        members = []
        for one in manifest.members:
            parts = []
            if held := linked.get(one.address, ([], []))[place]:
                path = f"{names[one.address]}/part-linked-00000.jsonl.gz"
                body = gzip.compress(b"".join(map(encode_row, held)), 1, mtime=0)
                (folder / path).write_bytes(body)
                parts = [Part(path, len(held), len(body), hashlib.sha256(body).hexdigest())]
            members.append(replace(one, cluster=cluster, links=links, linked=parts))
        (folder / MANIFEST_NAME).write_bytes(encode_manifest(replace(manifest, members=members)))
    return str(root)


def there(root: Path, second: list[Row] | None = None) -> str:
    rows = [*[service(name, THERE[0]) for name in NAMES], *registered()]
    return dump(root, "dc-b", dict.fromkeys(THERE, rows), {}, [])


def here(root: Path, linked: Mapping[str, tuple[list[Row], list[Row]]], links: tuple[Link, ...] = (LINK,)) -> str:
    own = [service("DEFAULT_GROUP@@local", HERE[0]), instance(1, service="DEFAULT_GROUP@@local", owner=HERE[0])]
    return dump(root, "dc-a", dict.fromkeys(HERE, own), linked, list(links))


def told(one: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(one["detail"]).partition(":")[0], str(one["member"]), str(one["ip"])


def test_each_planted_fault_of_a_link_is_told_and_no_other(spark: "SparkSession", tmp_path: Path) -> None:
    carried = [one for one in registered() if one["service"] != NAMES[3]]
    wanted, held = set(), {}
    for place, address in enumerate(HERE):
        rows = {one["ip"]: brought(one) for one in carried}
        ips = list(rows)[place * 10 : place * 10 + 7]
        for ip in ips[:3]:
            wanted.add(("missing", address, ip))
            del rows[ip]
        rows["10.7.0.1"] = brought(carried[0], ip="10.7.0.1")
        wanted.add(("extra", address, "10.7.0.1"))
        for ip, values in zip(ips[3:5], ({"healthy": False}, {"metadata": {"n": "x"}}), strict=True):
            rows[ip] = rows[ip] | values
            wanted.add(("differs", address, ip))
        rows[ips[5]] |= {"silent_ms": 90_000}
        wanted.add(("stale", address, ips[5]))
        second = {ip: row for ip, row in rows.items() if ip != ips[6]}  # only under way between the rounds
        held[address] = list(rows.values()), list(second.values())
    assert len(wanted) == 14
    here(tmp_path / "dumps", held)
    summary = judged(spark, tmp_path, NIGHT, linked=[there(tmp_path / "there")])
    found = findings(tmp_path)
    assert {told(one) for one in found} == wanted
    assert {(one["finding_class"], one["namespace"], one["name"], one["reference"]) for one in found} == {
        ("LINK", "of-b", "to-b", "dc-b")
    }
    [link] = summary.links
    assert (link["instances"], link["lacking"], link["missing"], link["extra"]) == (30, 3, 6, 2)
    assert (link["stale"], link["differs"], link["findings"]) == (2, 4, 14)
    assert "dc-a lacks 3 of 30" in summary.line
    page = render(summary, [])
    assert "dc-a lacks 3 of 30" in page.partition("</header>")[0]
    assert "rollcall links" in page


def test_links_that_carry_all_are_agreed_and_a_missing_dump_is_no_verdict(
    spark: "SparkSession", tmp_path: Path
) -> None:
    rows = [brought(one) for one in registered() if one["service"] != NAMES[3]]
    here(tmp_path / "dumps", dict.fromkeys(HERE, (rows, rows)))
    summary = judged(spark, tmp_path, NIGHT, linked=[there(tmp_path / "there")])
    assert (summary.findings, summary.links[0]["instances"], summary.links[0]["findings"]) == ({}, 30, 0)
    with pytest.raises(CannotJudge, match=r"the linked dump .* cannot be judged"):
        judged(spark, tmp_path, NIGHT, linked=[str(tmp_path / "nowhere")])
    here(tmp_path / "dumps", {}, (UNHEARD, ELSEWHERE))
    summary = judged(spark, tmp_path, NIGHT, linked=[str(tmp_path / "there")])
    assert [(one["link"], one["lacking"], one["missing"]) for one in summary.links] == [("mute", COUNT, 2 * COUNT)]
    assert "link to-c of dc-a is not judged: no dump of its cluster was given" in summary.notes
    with pytest.raises(CannotJudge, match="are dumps of one cluster"):
        judged(spark, tmp_path, NIGHT, linked=[here(tmp_path / "again", {})])
