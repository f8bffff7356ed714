"""The check over the dumps of linked clusters: each planted fault of a link is told, and nothing else."""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from app.http.api.dump_lines import linked_rows
from app.naming.model.foreign import Arrival, ArrivalRule, ForeignPart
from app.naming.model.model import Instance
from app.rows.rows import linked_row
from app.tools.audit.check.check import CannotJudge
from app.tools.audit.check.linked import KINDS
from app.tools.audit.format.manifest import Link
from app.tools.audit.report.report import render
from tests.spark.conftest import findings, judged
from tests.support.churning_links import ACCUSED_SEEDS, LINKED_SEEDS, churning_links, write_linked_night
from tests.support.dumps import LinkedRows, add_links, instance, service, write_dump
from tests.support.thorough import THOROUGH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
NIGHT = "2026-11-20"
HERE, THERE = ("10.0.0.1:8848", "10.0.0.2:8848"), ("10.9.0.1:8848", "10.9.0.2:8848", "10.9.0.3:8848")
NAMES = [f"DEFAULT_GROUP@@svc{number}" for number in range(4)]
COUNT = 40
BUSY_SEEDS = LINKED_SEEDS if THOROUGH else ACCUSED_SEEDS
Row = dict[str, Any]
LINK = Link("to-b", "dc-b", ["*"], ["*"], ["svc*", "!svc3"], {"public": "of-b"}, 2_000)
SPARE = Link("spare", "dc-b", ["pub*"], ["DEFAULT_GROUP"], ["svc3"], {"public": "of-c"}, 2_000)
BACK = Link("to-a", "dc-a", ["*", "!of-*"], ["*"], ["local?"], {}, 2_000)
RULES = {
    LINK.name: ArrivalRule(weight=0.5),
    SPARE.name: ArrivalRule(Arrival.FAILOVER, healthy_min=2),
    BACK.name: ArrivalRule(Arrival.APART),
}
NOW_MS = 10_000_000
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


def carried(link: Link, rows: list[Row], *, kept: bool = False, silent_ms: int | None = None) -> list[Row]:
    """Instances of a linked cluster as a node tells them in a dump, whatever the place that they arrive in."""
    stale_ms = None if silent_ms is None else NOW_MS - silent_ms
    told: list[Row] = []
    for row in rows:
        values = {name: row[name] for name in ("ip", "port", "healthy", "enabled", "weight", "metadata")}
        held = {row["ip"]: Instance(**values)}
        one, other = ({}, held) if kept else (held, {})
        part = ForeignPart(
            link.name, link.cluster, "run", 1, one, other, RULES[link.name], stale_ms, stated_ms=NOW_MS - 60_000
        )
        namespace = link.namespace_map.get(str(row["namespace"]), str(row["namespace"]))
        told += linked_rows([(namespace, str(row["service"]), part)], NOW_MS)
    return told


def dump(
    root: Path,
    cluster: str,
    rows: Mapping[str, list[Row]],
    linked: Mapping[str, tuple[list[Row], list[Row]]],
    links: list[Link],
) -> str:
    """Write both rounds of a cluster; ``linked``: what each member has by links, in each round."""
    for place, folder in enumerate(write_dump(root, rows)):
        add_links(folder, {one: LinkedRows(cluster, links, linked.get(one, ([], []))[place]) for one in rows})
    return str(root)


def there(root: Path, linked: Mapping[str, tuple[list[Row], list[Row]]] | None = None) -> str:
    rows = [*[service(name, THERE[0]) for name in NAMES], *registered()]
    return dump(root, "dc-b", dict.fromkeys(THERE, rows), linked or {}, [BACK] if linked else [])


def local() -> list[Row]:
    """The own instances of dc-a: five of each of two services, one of which no link carries."""
    names = ("DEFAULT_GROUP@@local1", "DEFAULT_GROUP@@local12")
    own = [instance(one, service=names[one % 2], owner=HERE[0], weight=2.0) for one in range(10)]
    return [*[service(name, HERE[0]) for name in names], *own]


def here(root: Path, linked: Mapping[str, tuple[list[Row], list[Row]]], links: tuple[Link, ...] = (LINK,)) -> str:
    return dump(root, "dc-a", dict.fromkeys(HERE, local()), linked, list(links))


def told(one: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return str(one["name"]), str(one["detail"]).partition(":")[0], str(one["member"]), str(one["ip"])


class Planted:
    """What links brought to the members of a cluster in both rounds, with faults in it."""

    def __init__(self, members: Collection[str]) -> None:
        self.linked: dict[str, tuple[list[Row], list[Row]]] = {one: ([], []) for one in members}
        self.wanted: set[tuple[str, str, str, str]] = set()

    def plant(self, link: Link, rows: list[Row], sick: str, **changed: Mapping[str, Any]) -> None:
        """Plant one fault of each kind of a link at one member, and two values; the others have all.

        ``changed``: the values of the instances that differ. The last instance is only under way between the rounds.
        """
        for address, (first, second) in self.linked.items():
            if address != sick:
                first += carried(link, rows)
                second += carried(link, rows)
                continue
            missing, silent, *rest, late = rows
            differ, alike = rest[: len(changed)], rest[len(changed) :]
            left_over = {**alike[0], "ip": f"10.7.{len(self.wanted)}.1"}
            held = carried(link, [left_over, *alike]) + carried(link, [silent], silent_ms=90_000)
            for one, values in zip(differ, changed.values(), strict=True):
                held += carried(link, [{**one, **values}])
                self.wanted.add((link.name, "differs", address, one["ip"]))
            first += [*held, *carried(link, [late])]
            second += held
            for kind, one in (("missing", missing), ("stale", silent), ("extra", left_over)):
                self.wanted.add((link.name, kind, address, one["ip"]))


def test_each_planted_fault_of_a_link_is_told_and_no_other(spark: "SparkSession", tmp_path: Path) -> None:
    """Fourteen faults of three links in both directions; what is kept is told only when it lasts."""
    svc, spare = ([one for one in registered() if (one["service"] == NAMES[3]) is spared] for spared in (False, True))
    back = [one for one in local() if one["service"] == "DEFAULT_GROUP@@local1"][1:]
    here_is, there_is = Planted(HERE), Planted(THERE)
    here_is.plant(LINK, svc, HERE[0], health={"healthy": False}, metadata={"metadata": {"n": "x"}})
    here_is.plant(SPARE, spare, HERE[1], weight={"weight": 7.0})
    there_is.plant(BACK, back, THERE[2], enabled={"enabled": False})
    for number, rows in enumerate(here_is.linked[HERE[1]]):
        gone = [{**spare[0], "ip": "10.7.9.1"}]
        rows += carried(SPARE, gone, kept=True)
        rows += carried(LINK, [{**svc[0], "ip": "10.7.9.2"}], silent_ms=20_000 + 15_000 * number)
        here_is.wanted.add((SPARE.name, "stale", HERE[1], "10.7.9.1"))
    assert len(here_is.wanted | there_is.wanted) == 14
    here(tmp_path / "dumps", here_is.linked, (LINK, SPARE))
    summary = judged(spark, tmp_path, NIGHT, linked=[there(tmp_path / "there", there_is.linked)])
    found = findings(tmp_path)
    assert Counter(told(one) for one in found) == Counter(here_is.wanted | there_is.wanted)
    assert {(one["finding_class"], one["namespace"], one["name"], one["reference"]) for one in found} == {
        ("LINK", "of-b", "to-b", "dc-b"),
        ("LINK", "of-c", "spare", "dc-b"),
        ("LINK", "public", "to-a", "dc-a"),
    }
    counts = {one["link"]: [one["instances"], *[one[kind] for kind in KINDS]] for one in summary.links}
    assert counts == {"to-b": [30, 1, 1, 1, 2], "spare": [10, 1, 1, 2, 1], "to-a": [5, 1, 1, 1, 1]}
    assert "dc-a lacks 1 of 30" in summary.line
    page = render(summary, [])
    assert "dc-a lacks 1 of 30" in page.partition("</header>")[0]
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


def test_nothing_is_told_of_busy_clusters_whose_link_is_cut_for_a_while(spark: "SparkSession", tmp_path: Path) -> None:
    """Some nights, each of two clusters, in one check: their ids tell them apart."""
    first, *others = (
        folder
        for seed in BUSY_SEEDS
        for folder in write_linked_night(tmp_path / f"night-{seed}", churning_links(seed), f"-{seed}")
    )
    Path(first).rename(tmp_path / "dumps")
    summary = judged(spark, tmp_path, NIGHT, linked=others)
    assert [one for one in findings(tmp_path) if one["lasting"]] == []
    assert len(summary.links) == 2 * len(BUSY_SEEDS)
    assert all(one["instances"] > 0 for one in summary.links)
    assert any("was silent for a moment" in note for note in summary.notes)
