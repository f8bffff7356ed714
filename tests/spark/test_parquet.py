"""Dumps of Parquet files: read as those of JSON, and damage in any byte of them is noticed without a second reading."""

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from app.rows.rows import client_row, record_row
from app.tools.audit.format.part_format import PartFormat
from tests.spark.conftest import Checking, findings
from tests.support.dumps import ADDRESSES, instance, service, write_dump, write_round

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [
    record_row("switches", {"pushEnabled": True}, "1.1.a"),
    client_row("1_10.0.0.9_1", 3, ONE, 1),
    service(instances=40),
    *[instance(number, metadata={"text": str(number) * 20}) for number in range(40)],
]
EVERYONE = dict.fromkeys(ADDRESSES, ROWS)
PARQUET = PartFormat.PARQUET


def part(folder: Path, address: str = THREE) -> Path:
    return next(folder.glob(f"member={address.replace(':', '_')}/part-*"))


def test_both_formats_and_both_ways_of_reading_say_the_same(
    tmp_path: Path, check: Checking, request: pytest.FixtureRequest
) -> None:
    """The Parquet files are read as many rows are, which the rows of JSON are not."""
    changed = [service(instances=40), *[instance(number, weight=float(1 + number % 2)) for number in range(40)]]
    for name, part_format in (("json", PartFormat.JSON), ("parquet", PARQUET)):
        if part_format is PARQUET:
            request.getfixturevalue("many")
        write_dump(
            tmp_path / "dumps", {**EVERYONE, TWO: changed}, date=f"2026-11-2{len(name)}", part_format=part_format
        )
        check(night=f"2026-11-2{len(name)}", out=name)
    dated = {"since", "first_seen", "last_seen", "nights_open", "opened_night"}
    told = [
        sorted(
            (sorted((key, str(value)) for key, value in one.items() if key not in dated))
            for one in findings(tmp_path, night, out=out)
        )
        for night, out in (("2026-11-24", "json"), ("2026-11-27", "parquet"))
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 40


def test_a_night_of_both_formats(tmp_path: Path, check: Checking) -> None:
    """As after an update of the tool between two rounds."""
    write_round(tmp_path / "dumps", 1, EVERYONE, "2026-11-20")
    write_round(tmp_path / "dumps", 2, EVERYONE, "2026-11-20", part_format=PARQUET)
    code, text = check()
    assert (code, "agreed: 3 members, 40 instances" in text) == (0, True)


def test_no_turned_bit_passes(tmp_path: Path, check: Checking) -> None:
    """Either the bit is in no row and no page, or the file is damaged: no row is ever another one.

    Each of twelve members beside two whole ones has another bit of its file turned.
    """
    addresses = [f"10.0.0.{number}:8848" for number in range(1, 15)]
    folder = write_dump(tmp_path / "dumps", dict.fromkeys(addresses, ROWS), part_format=PARQUET)[1]
    body = part(folder).read_bytes()
    numbers = random.Random(14)
    places = [0, 40, len(body) - 1, len(body) - 40, *numbers.sample(range(len(body)), 8)]
    turned = dict(zip(addresses[2:], places, strict=True))
    for address, at in turned.items():
        path = part(folder, address)
        assert path.read_bytes() == body
        spoiled = bytearray(body)
        spoiled[at] ^= 1 << numbers.randrange(8)
        path.write_bytes(bytes(spoiled))
    code, text = check()
    noticed = {(one["finding_class"], one["member"]) for one in findings(tmp_path)}
    assert code == 1, text
    assert noticed <= {("CORRUPT", address) for address in turned}, f"bytes {turned} of {len(body)}: {text}"
    assert len(noticed) >= 10, "pages and footer are nearly all of a file"


def test_a_file_cut_off_one_of_another_night_and_values_that_fit_no_column_are_corrupt(
    tmp_path: Path, check: Checking
) -> None:
    """The file of another night has the same size, and is whole in itself."""
    cut, elsewhere = "10.0.0.4:8848", "10.0.0.5:8848"
    odd = [*ROWS, instance(50) | {"port": "eighty"}, instance(51) | {"metadata": [1]}]
    members = {**EVERYONE, THREE: odd, cut: ROWS, elsewhere: ROWS}
    [folder, _] = write_dump(tmp_path / "dumps", members, part_format=PARQUET)
    part(folder, cut).write_bytes(part(folder, cut).read_bytes()[:-20])
    other = [*ROWS[:-1], instance(39, metadata={"text": "93" * 20})]
    [others, _] = write_dump(tmp_path / "others", {elsewhere: other}, part_format=PARQUET)
    size = part(folder, elsewhere).stat().st_size
    body = part(others, elsewhere).read_bytes()
    part(folder, elsewhere).write_bytes(body[:size] if len(body) >= size else body + bytes(size - len(body)))
    code, _ = check()
    assert code == 1
    found = findings(tmp_path)
    assert sorted((one["finding_class"], one["member"]) for one in found) == [
        ("CORRUPT", THREE),  # in each round
        ("CORRUPT", THREE),
        ("CORRUPT", cut),
        ("CORRUPT", elsewhere),
    ]
    assert ["2 lines are not rows" in one["detail"] for one in found if one["member"] == THREE] == [True, True]
