"""``rollcall simulate`` as a process: its transcript, its verdict, its exit codes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import orjson
import pytest

pytestmark = pytest.mark.simulation
COMMAND = [sys.executable, "-c", "from app.tools.cli import main; raise SystemExit(main())", "simulate"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--seed", "3", "--seconds", "20"),
        ("--seed", "3", "--without", "versions"),
        ("--seed", "9", "--scenario", "members"),
        ("--seed", "18", "--scenario", "members"),
    ],
)
def test_a_transcript_is_the_same_byte_by_byte_whatever_the_order_of_sets(words: tuple[str, ...]) -> None:
    told = [run("--all", *words, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")]
    assert told[0] == told[1]
    assert told[0].count("\n") > 500


def test_another_seed_is_another_world() -> None:
    assert run("--seed", "1", "--faults", "none").stdout != run("--seed", "2", "--faults", "none").stdout


def test_with_a_rule_the_world_holds_and_without_it_names_what_is_broken() -> None:
    held = run("--seed", "0", "--scenario", "versions", "--quiet")
    assert held.returncode == 0, held.stdout
    assert held.stdout.startswith("HELD: seed 0")
    broken = run("--seed", "0", "--without", "versions")
    assert broken.returncode == 1
    verdict = broken.stdout[broken.stdout.index("BROKEN: seed 0") :]
    assert "\ninvariant: agreement: " in verdict
    assert verdict.count(" holds ") == 2, "the two states that differ"
    assert "the last events that touched it" in verdict
    assert "(no rule: the last arrival wins)" in broken.stdout
    command = verdict.rpartition("again:     rollcall simulate ")[2].split()
    assert run(*command).stdout == broken.stdout


def test_of_several_seeds_the_first_that_breaks_is_told() -> None:
    told = run("--seed", "0", "--runs", "6", "--without", "merge", "--json")
    assert told.returncode == 1
    verdict = orjson.loads(told.stdout.splitlines()[-1])
    assert verdict["verdict"] == "broken"
    assert verdict["again"] == f"rollcall simulate --seed {verdict['seed']} --without merge"
    held = run("--seed", "0", "--runs", "2", "--faults", "liar,clock", "--seconds", "10")
    assert (held.returncode, held.stdout) == (0, "HELD: seeds 0 to 1, course\n")


def test_each_decision_has_its_rule() -> None:
    entries = [orjson.loads(line) for line in run("--seed", "5", "--json").stdout.splitlines()[:-1]]
    decisions = [one for one in entries if one["what"] == "decide"]
    assert {one["rule"].partition(":")[0] for one in decisions} >= {"R3", "R4"}
    assert [one["at_ms"] for one in entries] == sorted(one["at_ms"] for one in entries)


def test_a_forged_version_is_not_taken() -> None:
    entries = [orjson.loads(line) for line in run("--seed", "1", "--faults", "liar", "--json").stdout.splitlines()[:-1]]
    forged = [one for one in entries if one["what"] == "fault" and "forged" in one["text"]]
    refused = [one for one in entries if one["what"] == "decide" and one["rule"].startswith("R10")]
    assert len(refused) >= len(forged) > 0


def test_wrong_options_are_named() -> None:
    told = run("--members", "99")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == "rollcall simulate: --members 99 is out of bounds; allowed: 2 to 9\n"


def test_the_list_names_all() -> None:
    told = run("--list")
    assert told.returncode == 0
    assert {"scenarios", "rules", "faults", "invariants"} <= {
        line.partition(" ")[0].rstrip(":") for line in told.stdout.splitlines()
    }


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout


def test_whoever_stops_it_gets_the_verdict_so_far() -> None:
    words = ["--seconds", "3600", "--instances", "100", "--all"]
    with subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines = lines_of(process)
        assert "starts" in next(lines)
        process.send_signal(signal.SIGINT)
        told = list(lines)
        assert process.wait(60) == 130
    assert any(line.startswith("INTERRUPTED: seed 0") for line in told)


def test_a_reader_that_goes_is_no_error() -> None:
    with subprocess.Popen([*COMMAND, "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""
