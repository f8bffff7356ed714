"""The options of ``rollcall simulate``: what they ask for, and what is refused with the option's name."""

import argparse

import pytest

from app.tools.command import simulate_command
from app.tools.simulation.scenarios.cases import CASES
from app.tools.simulation.tool.sim_request import OptionError, SimRequest, read_request
from app.tools.simulation.transcript.lines import Selection
from app.tools.simulation.world import faults


def parse(*words: str) -> SimRequest:
    parser = argparse.ArgumentParser()
    simulate_command.add_to(parser.add_subparsers())
    return read_request(parser.parse_args(["simulate", *words]))


def test_without_options_all_faults_may_happen_to_three_members() -> None:
    request = parse()
    assert (request.seed, request.runs, request.scenario, request.without) == (0, 1, "course", "")
    assert (request.course.members, request.course.faults) == (3, tuple(faults.NAMED))
    assert request.command(0) == "rollcall simulate --seed 0"


def test_sizes_and_faults() -> None:
    request = parse("--members", "5", "--seconds", "30", "--faults", "loss,kill,loss", "--writes", "0")
    assert request.course.members == 5
    assert request.course.span_ms == 30_000
    assert request.course.faults == ("loss", "kill")
    assert request.course.writes == 0
    again = "rollcall simulate --seed 7 --members 5 --faults loss,kill,loss --writes 0 --seconds 30"
    assert sorted(request.command(7).split()) == sorted(again.split())


def test_the_command_that_runs_a_seed_again_asks_for_the_same() -> None:
    request = parse("--members", "4", "--faults", "none", "--without", "versions", "--scenario", "course")
    again = parse(*request.command(3).split()[2:])
    assert (again.course, again.without, again.scenario, again.seed) == (request.course, "versions", "course", 3)


def test_no_faults() -> None:
    assert parse("--faults", "none").course.faults == ()
    assert parse("--faults", "all").course.faults == tuple(faults.NAMED)


def test_a_rule_brings_its_scenario() -> None:
    request = parse("--without", "merge")
    assert request.scenario == "merge"
    assert request.command(2) == "rollcall simulate --seed 2 --without merge"


def test_the_large_scenario_takes_sizes_of_its_own() -> None:
    request = parse("--scenario", "large", "--services", "150000", "--records", "7")
    assert (request.large.members, request.large.services, request.large.records) == (3, 150_000, 7)
    assert parse(*request.command(0).split()[2:]).large == request.large
    with pytest.raises(OptionError, match="--writes cannot be combined with the scenario large"):
        parse("--scenario", "large", "--writes", "1")


def test_a_selection() -> None:
    request = parse("--from", "10", "--to", "20", "--key", "svc1", "--member", "B", "--all")
    assert request.selection == Selection(10, 20, "svc1", "10.0.0.2:8848", True)


@pytest.mark.parametrize(
    "words",
    [
        ("--members", "1"),
        ("--members", "10"),
        ("--runs", "0"),
        ("--seed", "-1"),
        ("--seconds", "3601"),
        ("--services", "0"),
        ("--instances", "0"),
        ("--writes", "-1"),
        ("--records", "501"),
        ("--from", "-1"),
        ("--faults", "fire"),
        ("--faults", ""),
        ("--without", "gravity"),
        ("--scenario", "sunday"),
        ("--member", "Z9"),
    ],
)
def test_what_is_refused_names_the_option_and_what_is_allowed(words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as told:
        parse(*words)
    assert str(told.value).startswith(f"{words[0]} ")
    assert "allowed" in str(told.value) or "not the name" in str(told.value)


@pytest.mark.parametrize(
    "words",
    [
        ("--members", "3", "--scenario", "members"),
        ("--writes", "3", "--without", "merge"),
        ("--without", "merge", "--scenario", "clients"),
        ("--scenario", "versions", "--without", "merge"),
        ("--to", "5", "--from", "6"),
    ],
)
def test_options_that_do_not_go_together(words: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as told:
        parse(*words)
    assert str(told.value).startswith(words[0])


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
