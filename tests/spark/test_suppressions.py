"""Known findings: counted apart, told with their reason, and without influence on verdict and alert."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.spark.conftest import NIGHT, Checking, findings
from tests.support.dumps import ADDRESSES, SERVICE, instance, service, write_dump
from tests.support.tiny_server import Given, tiny_server

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(instances=2), instance(1), instance(2)]
FEWER = [service(instances=1), instance(1)]


def known(tmp_path: Path, *entries: str, until: str = "2026-12-31") -> str:
    path = tmp_path / "known.toml"
    tail = f'until = {until}\nreason = "moves in December"\n'
    path.write_text("".join(f"[[suppress]]\n{entry}\n{tail}" for entry in entries))
    return str(path)


def summary(tmp_path: Path, night: str = NIGHT) -> dict[str, object]:
    path = tmp_path / "out" / "reports" / f"night={night}" / "summary.json"
    return json.loads(path.read_text())


def test_a_known_finding_changes_no_verdict_and_raises_no_alert(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS})
    file = known(tmp_path, f'class = "MISSING"\nservice = "*@@ord?rs"\nip = "10.1.*"\nmember = "{TWO}"')
    metrics = tmp_path / "rollcall.prom"
    with tiny_server(lambda _: Given()) as tiny:
        options = ("--suppressions", file, "--alert-url", f"http://{tiny.address}/", "--textfile", str(metrics))
        code, text = check(*options)
    assert (code, tiny.received) == (0, [])
    assert "agreed: 3 members, 2 instances of 1 services; 1 suppressed; night" in text
    assert "note: suppressions, entry 1 suppresses 1 MISSING until 2026-12-31: moves in December" in text
    [found] = findings(tmp_path)
    assert (found["finding_class"], found["lasting"], found["service"]) == ("MISSING", False, SERVICE)
    assert found["detail"] == "suppressed until 2026-12-31 by entry 1: moves in December"
    told = summary(tmp_path)
    assert (told["findings"], told["late"], told["suppressed"]) == ({}, {}, {"MISSING": 1})
    assert [(one["findings"], one["late"]) for one in told["by_service"]] == [(0, 0)]
    written = metrics.read_text()
    assert 'rollcall_check_findings_suppressed{class="MISSING"} 1.0' in written
    assert 'rollcall_check_findings{class="MISSING"} 0.0' in written
    assert 'rollcall_check_findings_late{class="MISSING"} 0.0' in written
    report = (tmp_path / "out" / "reports" / f"night={NIGHT}" / "report.html").read_text()
    assert "suppressions, entry 1 suppresses 1 MISSING until 2026-12-31: moves in December" in report
    assert (told["by_class"], told["groups"]) == ([], []), "no late one either"
    assert told["examples"][0]["detail"] == found["detail"]


def test_the_first_entry_that_matches_counts_and_what_matches_nothing_suppresses_nothing_and_is_said(
    tmp_path: Path, check: Checking
) -> None:
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: [service(), instance(1, weight=3.0)], THREE: ROWS})
    others = (
        'class = "EXTRA"',
        'class = "MISSING"\nmember = "10.0.0.3:8848"',
        'class = "MISSING"\nip = "10.1.0"',
        'class = "MISSING"\nnamespace = "prod"',
    )
    file = known(tmp_path, *others, 'class = "MISSING"', 'class = "MISSING"\nip = "10.*"')
    code, text = check("--suppressions", file)
    assert code == 1
    assert "divergent: 1 WEIGHT; 3 members, 2 instances of 1 services; 1 suppressed; night" in text
    for number, name in enumerate(("EXTRA", "MISSING", "MISSING", "MISSING"), 1):
        assert f"entry {number} matched no lasting {name}" in text
    assert "entry 5 suppresses 1 MISSING" in text
    assert "entry 6 matched no lasting MISSING" in text


def test_what_is_late_stays_late(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS}, {ONE: ROWS, TWO: ROWS, THREE: ROWS})
    code, text = check("--suppressions", known(tmp_path, 'class = "MISSING"'))
    assert code == 0
    assert "; 1 late; night" in text
    assert summary(tmp_path)["suppressed"] == {}


def test_a_file_that_cannot_be_used_is_no_verdict(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, ROWS))
    code, text = check("--suppressions", known(tmp_path, 'class = "MISSING"', 'class = "GONE"'))
    assert code == 2
    assert "could not judge: " in text
    assert "known.toml, entry 2: class should be one of MISSING" in text


def test_an_entry_that_has_ended_suppresses_nothing_and_the_history_of_the_fault_goes_on(
    tmp_path: Path, check: Checking
) -> None:
    """A suppressed fault is not healed: it is open in the first night, suppressed in the second, and open again."""
    nights = [f"2026-11-2{number}" for number in range(3)]
    for night in nights:
        write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS}, date=night)
    file = known(tmp_path, 'class = "MISSING"', until=nights[1])
    told = [
        check(*options, night=night)
        for night, options in zip(nights, ((), ("--suppressions", file), ("--suppressions", file)), strict=True)
    ]
    assert [code for code, _ in told] == [1, 0, 1]
    assert (
        f"note: suppressions, entry 1 expired at {nights[1]}, and suppresses nothing: moves in December" in told[2][1]
    )
    histories = [
        [(one["lasting"], one["first_seen"], one["nights_open"]) for one in findings(tmp_path, night)]
        for night in nights
    ]
    assert histories == [[(True, nights[0], 1)], [(False, nights[0], 2)], [(True, nights[0], 3)]]
