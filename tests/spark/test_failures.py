"""What is told of a failure of Spark: its condition, its message and what the message speaks of."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from app.tools.audit.check.failures import CHARS_MAX, failure_of
from tests.spark.conftest import NIGHT, Checking
from tests.support.dumps import ADDRESSES, instance, service, write_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]
ROWS = [service(), instance(1)]


def test_a_missing_path(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - its class is one of Spark's, and not what is tested
        spark.read.parquet(str(tmp_path / "none"))
    failure = failure_of(raised.value)
    assert failure.condition == "PATH_NOT_FOUND"
    assert failure.parameters == {"path": f"file:{tmp_path}/none"}
    assert failure.line.startswith(f"[PATH_NOT_FOUND] Path does not exist: file:{tmp_path}/none.")


def test_a_damaged_file_below_an_exception_of_java(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text("no parquet" * 10)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - as above
        spark.read.schema("a int").parquet(str(path)).collect()
    failure = failure_of(raised.value)
    assert failure.condition is not None
    assert failure.condition.startswith("FAILED_READ_FILE")
    assert failure.parameters == {"path": f"file://{path}"}


def test_a_failure_that_spark_has_no_condition_for(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - as above
        spark.range(1).write.parquet(str(tmp_path / "file" / "below"))
    failure = failure_of(raised.value)
    assert failure.condition is None
    assert failure.line == failure.message
    assert "Exception: " in failure.line
    assert str(tmp_path / "file") in failure.line


def test_a_text_of_a_member_is_one_line_and_short(spark: "SparkSession") -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - as above
        spark.sql("SELECT raise_error(concat('<b>\n\x1b[31m', repeat('x', 10000)))").collect()
    failure = failure_of(raised.value)
    assert failure.condition == "USER_RAISED_EXCEPTION"
    assert len(failure.message) <= CHARS_MAX
    assert all(text.isprintable() for text in (failure.line, *failure.parameters.values()))


def test_the_command_tells_it_in_its_line_and_as_fields(
    spark: "SparkSession", tmp_path: Path, check: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, ROWS))

    def fail(*_: object) -> None:
        spark.read.parquet(str(tmp_path / "none"))

    monkeypatch.setattr("app.tools.audit.check.check.flag", fail)
    code, text = check()
    assert (code, "could not judge: Spark failed: [PATH_NOT_FOUND] Path does not exist" in text) == (2, True)
    summary = json.loads((tmp_path / "out" / "reports" / f"night={NIGHT}" / "summary.json").read_text())
    assert summary["error"]["condition"] == "PATH_NOT_FOUND"
    assert summary["error"]["message"].startswith("[PATH_NOT_FOUND] Path does not exist")
    assert summary["error"]["parameters"] == {"path": f"file:{tmp_path}/none"}
    assert summary["tables"] == {}
