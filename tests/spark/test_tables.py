"""The tables of the nights: a night is there whole or not at all, whatever is cut off and whatever runs again."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.local import LocalFileSystem

pytest.importorskip("pyspark")

from app.tools.audit.check import compaction, results
from app.tools.audit.check.check import judge
from app.tools.audit.check.compaction import compact
from app.tools.audit.check.night_check import NightCheck
from app.tools.audit.check.results import Results
from app.tools.audit.check.table_files import Output
from app.tools.audit.check.tables import read_table
from app.tools.audit.format import table_manifests
from app.tools.audit.format.commits import STORED, TABLE_FIELDS, BadCommit, began, committed, nights_by_file
from tests.spark.conftest import Checking, judged
from tests.support.dumps import ADDRESSES, instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ONE, TWO, _ = ADDRESSES
NIGHTS = ["2026-10-05", "2026-10-06", "2026-11-01"]


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_after(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """End after the given step of all that change the output folder; whether that came to pass is what it yields."""
    done = 0

    def ending(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            value = work(*arguments, **options)
            done += 1
            if done == step:
                raise Killed
            return value

        return run

    with monkeypatch.context() as patch, suppress(Killed):
        for module in (results, compaction, table_manifests):
            patch.setattr(module, "write_whole", ending(module.write_whole))
        patch.setattr(Output, "write", ending(Output.write))
        patch.setattr(LocalFileSystem, "rm_file", ending(LocalFileSystem.rm_file))
        patch.setattr(LocalFileSystem, "rm", ending(LocalFileSystem.rm))
        yield lambda: done >= step


def dump(folder: Path, night: str, *weights: float) -> None:
    """A night in which the second member departs in the weight of so many instances."""
    shutil.rmtree(folder / "dumps" / f"dump_date={night}", ignore_errors=True)
    right = [service(), *(instance(number) for number, _ in enumerate(weights, 1))]
    wrong = [service(), *(instance(number, weight=weight) for number, weight in enumerate(weights, 1))]
    write_dump(folder / "dumps", {ONE: right, TWO: wrong}, date=night)


def rows(spark: "SparkSession", folder: Path, table: str = "findings") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in read_table(spark, str(folder / "out"), table).collect()), key=repr)


def everything(spark: "SparkSession", folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: rows(spark, folder, table) for table in TABLE_FIELDS}


def weights(spark: "SparkSession", folder: Path, night: str) -> list[str]:
    found = read_table(spark, str(folder / "out"), "findings", [night]).collect()
    return sorted(row["found"] for row in found)


class Reading:
    """The rows of a folder, which Spark reads once for each state of commits and files: most steps change neither."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._read: dict[Any, list[tuple[Any, ...]]] = {}

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self._rows(table) for table in TABLE_FIELDS}

    def weights(self) -> list[str]:
        """The weights of the first night, as ``weights`` has them."""
        place = list(TABLE_FIELDS["findings"]).index("found")
        return sorted(row[place] for row in self._rows("findings") if row[0] == NIGHTS[0])

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        named = nights_by_file(committed(LocalFileSystem(), str(self._folder / "out")), table)
        out = self._folder / "out"
        files = [(digest(out / file.path), "/month=" in file.path, *nights) for file, nights in named.items()]
        state = table, frozenset(files)
        if state not in self._read:
            self._read[state] = rows(self._spark, self._folder, table)
        return self._read[state]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unnamed(folder: Path) -> list[str]:
    """Files of the tables that no commit names."""
    out = folder / "out"
    commits = committed(LocalFileSystem(), str(out))
    named = {file.path for table in STORED for file in nights_by_file(commits, table)}
    files = (path for table in STORED for path in (out / table).rglob("*") if path.is_file() and path.suffix != ".crc")
    return sorted(found for path in files if (found := str(path.relative_to(out))) not in named)


def in_manifests(folder: Path) -> dict[tuple[str, str], set[str]]:
    """The files that the manifests name, all of which exist. Shape: by table and night."""
    out, found = folder / "out", {}
    for manifest in out.glob("manifests/*/commit_night=*/manifest"):
        files = {line.removeprefix("file://") for line in manifest.read_text().splitlines()}
        assert all(Path(file).is_file() for file in files), manifest
        found[manifest.parts[-3], manifest.parts[-2].partition("=")[2]] = files
    return found


def in_commits(folder: Path) -> dict[tuple[str, str], set[str]]:
    """The files with rows that the commits name, as ``in_manifests`` has them."""
    commits = committed(LocalFileSystem(), str(folder / "out"))
    return {
        (name, night): {str(folder / "out" / file.path) for file in table.files if table.rows}
        for night, tables in commits.items()
        for name, table in tables.items()
        if name in TABLE_FIELDS
    }


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=13)


@pytest.fixture(scope="module")
def judged_nights(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nights of a month, and one of the next: their dumps and their results, for tests that copy them."""
    folder = tmp_path_factory.mktemp("nights")
    for number, night in enumerate(NIGHTS):
        dump(folder, night, 2.0, *[3.0] * number)
        judged(spark, folder, night)
    return folder


@pytest.fixture
def three_nights(judged_nights: Path, tmp_path: Path) -> None:
    """The judged nights in this test's folder: a commit names its files by their paths below the folder."""
    shutil.copytree(judged_nights, tmp_path, dirs_exist_ok=True)


def test_the_commit_names_each_file_as_it_is(judged_nights: Path) -> None:
    out = judged_nights / "out"
    summary = json.loads((out / "reports" / f"night={NIGHTS[1]}" / "summary.json").read_text())
    assert {name: table["rows"] for name, table in summary["tables"].items()} == {
        "findings": 2,
        "services": 1,
        "faults": 2,
        "findings_json": 2,
    }
    assert unnamed(judged_nights) == []
    for table in summary["tables"].values():
        assert (table["schema"], sum(file["rows"] for file in table["files"])) == (1, table["rows"])
        for file in table["files"]:
            body = (out / file["path"]).read_bytes()
            assert (len(body), hashlib.sha256(body).hexdigest()) == (file["bytes"], file["sha256"])


@pytest.mark.usefixtures("many")
def test_rows_are_counted_by_file_where_there_are_several(spark: "SparkSession", tmp_path: Path) -> None:
    out = Output(LocalFileSystem(), str(tmp_path), str(tmp_path), "run=20261121T000000Z-0123abcd")
    columns = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in TABLE_FIELDS["services"].items()]
    table = out.write("services", spark.range(0, 100, 1, 3).selectExpr(*columns), str(tmp_path / "services" / out.run))
    assert (table.rows, sorted(file.rows for file in table.files)) == (100, [33, 33, 34])


@pytest.mark.usefixtures("three_nights")
def test_nothing_is_moved(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores have no rename: one file after the other is copied, and a reader sees a part."""
    moved = []
    for name in ("mv", "mv_file", "rename", "move", "copy", "cp_file"):
        monkeypatch.setattr(LocalFileSystem, name, lambda *_, **__: moved.append(1), raising=False)
    dump(tmp_path, NIGHTS[0], 3.0)
    judged(spark, tmp_path, NIGHTS[0])
    assert (weights(spark, tmp_path, NIGHTS[0]), moved) == (["3.0"], [])


@pytest.mark.usefixtures("three_nights")
def test_a_check_that_ends_at_any_step_leaves_the_night_before_or_after(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump(tmp_path, NIGHTS[0], 3.0, 4.0)
    again = Results(str(tmp_path / "out"))
    summary = judge(spark, NightCheck(str(tmp_path / "dumps"), NIGHTS[0]), again)
    shutil.copytree(tmp_path / "out", tmp_path / "judged")
    read, seen = Reading(spark, tmp_path), []
    for step in count(1):
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(tmp_path / "judged", tmp_path / "out")
        with killed_after(step, monkeypatch) as has_ended:
            again.publish(summary, "")
        seen.append(read.weights())
        assert in_manifests(tmp_path)
        assert len(committed(LocalFileSystem(), str(tmp_path / "out"))[NIGHTS[0]]["findings"].files) == 1
        Results(str(tmp_path / "out"), now=later()).remove_abandoned()
        assert unnamed(tmp_path) == []
        assert read.weights() == seen[-1]
        assert in_manifests(tmp_path)
        if not has_ended():
            break
    before, after = ["2.0"], ["3.0", "4.0"]
    assert seen == [before] + [after] * (len(seen) - 1), "the report comes first, then the commit, then removals"
    assert len(seen) > 4


@pytest.mark.usefixtures("three_nights")
def test_manifests_that_cannot_be_written_cost_no_night(
    spark: "SparkSession", tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until they are written, they name the files of the earlier check, which stay; a later check writes them."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    earlier = in_manifests(tmp_path)["findings", NIGHTS[0]]
    dump(tmp_path, NIGHTS[0], 3.0)
    with monkeypatch.context() as patch:
        patch.setattr(table_manifests, "write_whole", full)
        code, text = check(night=NIGHTS[0])
    assert (code, "note: manifests were not written, or old results not removed: [Errno 28]" in text) == (1, True)
    assert weights(spark, tmp_path, NIGHTS[0]) == ["3.0"]
    assert in_manifests(tmp_path)["findings", NIGHTS[0]] == earlier
    shutil.rmtree(tmp_path / "out" / "manifests" / "faults")  # as an earlier release left it
    Results(str(tmp_path / "out"), now=later()).remove_abandoned()
    assert in_manifests(tmp_path) == in_commits(tmp_path)
    assert unnamed(tmp_path) == []


@pytest.mark.usefixtures("three_nights")
def test_a_check_that_fails_half_way_leaves_no_files(
    spark: "SparkSession", tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Output.write

    def full(output: Output, table: str, *arguments: Any) -> Any:
        written = write(output, table, *arguments)
        if table == "services":
            raise OSError(28, "No space left on device")
        return written

    monkeypatch.setattr(Output, "write", full)
    code, text = check(night=NIGHTS[0])
    assert (code, "No space left on device" in text) == (2, True)
    assert unnamed(tmp_path) == []
    assert weights(spark, tmp_path, NIGHTS[0]) == ["2.0"]


@pytest.mark.usefixtures("three_nights")
def test_files_of_a_check_under_way_stay_and_those_of_one_cut_off_go(
    spark: "SparkSession", tmp_path: Path, check: Checking
) -> None:
    other = Results(str(tmp_path / "out"))
    judge(spark, NightCheck(str(tmp_path / "dumps"), NIGHTS[1]), other)
    under_way = unnamed(tmp_path)
    assert check(night=NIGHTS[0])[0] == 1
    assert unnamed(tmp_path) == under_way
    assert rows(spark, tmp_path)[0][0] == NIGHTS[0]
    old = f"run={datetime.now(UTC) - timedelta(hours=13):%Y%m%dT%H%M%SZ}-{other.output.run[-8:]}"
    for path in under_way:
        renamed = tmp_path / "out" / path.replace(other.output.run, old)
        renamed.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / path).rename(renamed)
    assert all(began(path) for path in unnamed(tmp_path))
    code, text = check(night=NIGHTS[0])
    assert (code, f"removed {len(under_way)} files of interrupted checks" in text) == (1, True)
    assert unnamed(tmp_path) == []


@pytest.mark.usefixtures("three_nights")
def test_a_damaged_commit_has_nothing_removed(spark: "SparkSession", tmp_path: Path, check: Checking) -> None:
    """Its files look like those of a check that was cut off."""
    summary = tmp_path / "out" / "reports" / f"night={NIGHTS[0]}" / "summary.json"
    whole = summary.read_bytes()
    summary.write_bytes(whole[:-20])
    with pytest.raises(BadCommit, match=f"^{summary}: not the summary of a night$"):
        Results(str(tmp_path / "out"), now=later()).remove_abandoned()
    with pytest.raises(BadCommit):
        read_table(spark, str(tmp_path / "out"), "findings")
    assert check(night=NIGHTS[1])[0] == 1
    summary.write_bytes(whole)
    assert weights(spark, tmp_path, NIGHTS[0]) == ["2.0"]


@pytest.mark.usefixtures("three_nights")
def test_what_became_of_an_earlier_night_costs_its_history_and_no_verdict(tmp_path: Path, check: Checking) -> None:
    shutil.rmtree(tmp_path / "out" / "faults")
    code, text = check(night=NIGHTS[1])
    assert (code, f"changed after the night {NIGHTS[0]}: the history begins again" in text) == (1, True)


class TestCompaction:
    @pytest.mark.usefixtures("three_nights")
    def test_a_month_becomes_one_file_for_each_table(
        self, spark: "SparkSession", tmp_path: Path, check: Checking
    ) -> None:
        before = everything(spark, tmp_path)
        out = Results(str(tmp_path / "out"))
        assert compact(spark, out, "2026-10-31") == [], "its last day is not old enough"
        assert compact(spark, out, "2026-11-01") == ["2026-10"]
        assert compact(spark, out, "2026-11-01") == [], "and not twice"
        assert everything(spark, tmp_path) == before
        assert unnamed(tmp_path) == []
        for table in TABLE_FIELDS:
            assert len(list((tmp_path / "out" / table).rglob("*.parquet"))) == 2
            assert not (tmp_path / "out" / table / f"night={NIGHTS[0]}").exists()

        # A night of the month is checked again, and leaves the file of the month for its own.
        dump(tmp_path, NIGHTS[0], 7.0)
        judged(spark, tmp_path, NIGHTS[0])
        assert weights(spark, tmp_path, NIGHTS[0]) == ["7.0"]
        assert in_manifests(tmp_path) == in_commits(tmp_path)
        assert rows(spark, tmp_path)[1:] == before["findings"][1:]
        assert compact(spark, out, "2026-11-01") == ["2026-10"]
        assert weights(spark, tmp_path, NIGHTS[0]) == ["7.0"]
        assert len(list((tmp_path / "out" / "findings").rglob("*.parquet"))) == 2

        # Nights are removed one by one, and the file with the last of them.
        assert out.remove_before("2026-10-06", 1) == [NIGHTS[0]]
        assert in_manifests(tmp_path) == in_commits(tmp_path)
        assert rows(spark, tmp_path) == before["findings"][1:]
        assert out.remove_before("2026-11-01", 1) == [NIGHTS[1]]
        assert not list((tmp_path / "out").rglob("*2026-10*"))
        assert {row[0] for row in rows(spark, tmp_path)} == {NIGHTS[2]}

    @pytest.mark.usefixtures("three_nights")
    def test_ended_at_any_step_it_leaves_the_same_rows(
        self, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = Reading(spark, tmp_path)
        before = read.everything()
        shutil.copytree(tmp_path / "out", tmp_path / "before")
        for step in count(1):
            shutil.rmtree(tmp_path / "out")
            shutil.copytree(tmp_path / "before", tmp_path / "out")
            with killed_after(step, monkeypatch) as has_ended:
                compact(spark, Results(str(tmp_path / "out")), "2026-11-01")
            assert read.everything() == before, f"after step {step}"
            assert in_manifests(tmp_path)
            Results(str(tmp_path / "out"), now=later()).remove_abandoned()
            assert unnamed(tmp_path) == []
            assert read.everything() == before, f"after step {step} and the removal of what was left"
            assert in_manifests(tmp_path)
            if not has_ended():
                break
        assert in_manifests(tmp_path) == in_commits(tmp_path)
        assert step > 8, "three tables are written, two nights committed, and their files removed"

    @pytest.mark.usefixtures("three_nights")
    def test_the_command_puts_old_months_together_after_its_verdict(
        self, spark: "SparkSession", tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dump(tmp_path, "2026-12-01", 2.0)
        with monkeypatch.context() as patch:
            patch.setattr(Output, "write", full_for_months(Output.write))
            code, text = check("--compact-after", "1", night="2026-12-01")
        assert (code, "divergent" in text) == (1, True)
        assert "note: old results were not merged: [Errno 28] No space left" in text
        code, text = check("--compact-after", "1", night="2026-12-01")
        assert (code, "merged the results of 2026-10" in text) == (1, True)
        assert "2026-11 together" not in text


def full_for_months(write: Callable[..., Any]) -> Callable[..., Any]:
    def run(output: Output, table: str, frame: Any, folder: str) -> Any:
        if "month=" in folder:
            raise OSError(28, "No space left on device")
        return write(output, table, frame, folder)

    return run
