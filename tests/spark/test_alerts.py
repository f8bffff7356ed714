"""What a night tells whom: exit code, line, metrics and every form of alert, from the first bad night to its end."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from app.rows.summary import Summary
from app.tools.audit.check import check as checks
from tests.spark.conftest import NIGHT, Checking
from tests.support.dumps import ADDRESSES, instance, service, write_dump
from tests.support.tiny_server import Given, tiny_server

pytestmark = [pytest.mark.spark]
ONE, TWO, THREE = ADDRESSES
ROWS = [service(instances=2), instance(1), instance(2)]
FEWER = [service(instances=1), instance(1)]
WORDS = {
    "json": ('"verdict":"divergent"', '"verdict":"unjudged"', '"resolved":["MISSING","UNJUDGED"]'),
    "slack": ("rollcall: divergent (check)", "rollcall: unjudged (check)", "rollcall: resolved (check)"),
    "text": ("rollcall: divergent (check)\n", "rollcall: unjudged (check)\n", "rollcall: resolved (check)\n"),
    "alertmanager": ('"class":"MISSING"', '"class":"UNJUDGED"', "no longer open: agreed"),
}


Verdicts = dict[str, Summary | checks.CannotJudge]


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    """The verdict of each night that Spark has judged in a test that uses ``judged_once``."""
    return {}


@pytest.fixture
def judged_once(verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark judge each night only once; each test runs everything after the verdict itself."""
    judge = checks.judge

    def known(spark: Any, asked: checks.NightCheck, results: Any) -> Summary:
        assert asked.night
        if asked.night not in verdicts:
            try:
                verdicts[asked.night] = judge(spark, asked, results)
            except checks.CannotJudge as reason:
                verdicts[asked.night] = reason
        verdict = verdicts[asked.night]
        if isinstance(verdict, checks.CannotJudge):
            raise verdict
        return verdict

    monkeypatch.setattr(checks, "judge", known)


@pytest.mark.usefixtures("judged_once")
@pytest.mark.parametrize("form", list(WORDS))
def test_the_nights_of_a_fault(form: str, tmp_path: Path, check: Checking) -> None:
    metrics = tmp_path / "rollcall.prom"
    nights = [f"2026-11-2{number}" for number in range(6)]
    write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, ROWS), date=nights[0])
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS}, date=nights[1])
    for night in nights[3:]:
        write_dump(tmp_path / "dumps", dict.fromkeys(ADDRESSES, ROWS), date=night)
    seen = []
    with tiny_server(lambda _: Given()) as tiny:
        options = ("--alert-url", f"http://{tiny.address}", "--alert-format", form, "--textfile", str(metrics))
        for night in nights:
            before = len(tiny.received)
            code, text = check(*options, night=night)
            [verdict] = [
                word
                for word in ("agreed", "divergent", "unjudged")
                if f'rollcall_check_verdict{{verdict="{word}"}} 1.0' in metrics.read_text()
            ]
            assert "not delivered" not in text
            seen.append((code, verdict, len(tiny.received) - before))
    assert seen == [
        (0, "agreed", 0),
        (1, "divergent", 1),
        (2, "unjudged", 1),
        (0, "agreed", 1),
        (0, "agreed", 0),
        (0, "agreed", 0),
    ]
    for word, received in zip(WORDS[form], tiny.received, strict=True):
        assert word in received.body.decode()


def test_a_night_that_is_checked_again_and_agrees_ends_its_own_alert(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS})
    with tiny_server(lambda _: Given()) as tiny:
        options = ("--alert-url", f"http://{tiny.address}/")
        assert check(*options)[0] == 1
        assert check(*options, "--ignore", "MISSING")[0] == 0
        assert check(*options, "--ignore", "MISSING")[0] == 0
    assert [json.loads(one.body)["verdict"] for one in tiny.received] == ["divergent", "agreed"]


def test_an_alert_of_a_folder_that_takes_no_results_is_sent(tmp_path: Path, check: Checking) -> None:
    write_dump(tmp_path / "dumps", {ONE: ROWS, TWO: FEWER, THREE: ROWS})
    (tmp_path / "full").write_text("a file where the folder should be")
    with tiny_server(lambda _: Given()) as tiny:
        code, text = check("--alert-url", f"http://{tiny.address}/", out="full")
    assert code == 2
    assert [json.loads(one.body)["verdict"] for one in tiny.received] == ["unjudged"]
    assert "the list of open alerts cannot be saved in" in text
    assert "could not judge: " in text
    assert f"{NIGHT}" in tiny.received[0].body.decode()
