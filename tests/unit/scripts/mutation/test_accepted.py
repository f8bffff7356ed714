"""The score of mutants, and the list of accepted survivors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.mutation import __main__ as command
from scripts.mutation import accepted
from scripts.mutation.accepted import Accepted, Score, judge
from scripts.mutation.mutants import Mutant, Outcome, change, files_of, refusals
from scripts.mutation.results import Results

ROOT = Path(__file__).parents[4]
WAS, BECOMES = "if a < b:", "if a <= b:"


def mutant(number: int, outcome: Outcome, was: str = "", becomes: str = "") -> Mutant:
    return Mutant(f"m.x_f__mutmut_{number}", "f", was, becomes, outcome)


def entry(
    was: str, becomes: str | None = None, function: str = "f", file: str = "distro/members/mapper.py"
) -> Accepted:
    return Accepted(file, function, was, "Nobody can see it.", becomes)


MUTANTS = [
    mutant(1, Outcome.KILLED),
    mutant(2, Outcome.TIMED_OUT),
    mutant(3, Outcome.REFUSED),
    mutant(4, Outcome.SURVIVED, WAS, BECOMES),
    mutant(5, Outcome.SURVIVED, WAS, "if a > b:"),
]


@pytest.mark.parametrize(
    ("entries", "survived", "percent"),
    [
        ([], [4, 5], 50.0),
        ([entry(WAS, BECOMES)], [5], 100 * 2 / 3),
        ([entry(WAS)], [], 100.0),
        ([entry(WAS, function="g"), entry(WAS, file="distro/timing/clock.py"), entry("if a:")], [4, 5], 50.0),
    ],
)
def test_accepted_survivors_are_not_counted(entries: list[Accepted], survived: list[int], percent: float) -> None:
    judgement = judge({"distro/members/mapper.py": MUTANTS}, entries)
    assert [one.name for _, one in judgement.survivors] == [f"m.x_f__mutmut_{number}" for number in survived]
    assert judgement.by_file["distro/members/mapper.py"] == judgement.total
    assert judgement.total.percent == pytest.approx(percent)
    counts = judgement.total
    assert (counts.mutants, counts.refused, counts.killed, counts.timed_out) == (5, 1, 1, 1)
    assert (counts.survived, counts.accepted) == (len(survived), 2 - len(survived))


def test_an_entry_without_its_survivor_is_stale_where_its_file_was_checked() -> None:
    used, killed = entry(WAS, BECOMES), entry("x = 1")
    others = [entry("x = 1", file=f"distro/{name}.py") for name in ("clock", "load", "tasks")]
    judgement = judge(
        {
            "distro/members/mapper.py": MUTANTS,
            "distro/timing/clock.py": [mutant(9, Outcome.UNCHECKED)],
            "distro/protocol/tasks.py": [],
        },
        [used, killed, *others],
    )
    assert judgement.stale == [killed]


def test_of_nothing_nothing_survived() -> None:
    assert Score().percent == 100


def test_a_list_without_reasons_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text('[[accepted]]\nfile = "f"\nfunction = "g"\nwas = "a"\nreason = " "\n')
    with pytest.raises(ValueError, match="without a reason"):
        accepted.read(path)


def test_the_list_is_about_code_that_is_there() -> None:
    for one in accepted.read(command.LIST):
        text = " ".join(line.strip() for line in (ROOT / one.file).read_text().splitlines())
        assert one.was in text, f"{one.file} has no {one.was!r} any more"


def test_a_change_is_told_by_the_lines_that_differ() -> None:
    before = ["def f():", "    return g(", "        a, b)", "    # end"]
    assert change(before, ["def f():", "    return g(a)", "    # end"]) == ("return g( a, b)", "return g(a)")


def test_files_are_those_of_distro_and_the_domain() -> None:
    found = files_of([], ROOT)
    assert {"distro/protocol/tasks.py", "app/naming/service.py", "app/naming/push/schedule.py"} <= set(found)
    assert not [name for name in found if not name.startswith(("distro/", "app/naming/")) or "__init__" in name]
    assert files_of(["distro/protocol/tasks.py", "distro/protocol/tasks.py"], ROOT) == ["distro/protocol/tasks.py"]
    for path in ("app/node/node.py", "distro/none"):
        with pytest.raises(FileNotFoundError):
            files_of([path], ROOT)


def test_what_comes_of_keeping_mutants_side_by_side_is_no_refusal() -> None:
    line = '{"file": "distro/members/mapper.py", "line": %d, "code": "%s", "severity": "%s", "message": ""}'
    lines = [line % (3, "no-redef", "error"), "", line % (4, "arg-type", "error"), line % (5, "misc", "note")]
    assert refusals(lines) == [("distro/members/mapper.py", 4)]


def test_results_are_kept_until_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "distro" / "members" / "mapper.py"
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\n")
    results = Results(tmp_path, tmp_path / "results")
    assert results.of("distro/members/mapper.py") == []
    source = results.source("distro/members/mapper.py")
    results.put("distro/members/mapper.py", MUTANTS, source)
    assert results.of("distro/members/mapper.py") == MUTANTS
    file.write_text("a = 2\n")
    assert results.of("distro/members/mapper.py") == []
    results.put("distro/members/mapper.py", MUTANTS, source)
    assert results.of("distro/members/mapper.py") == [], "they are of the code before"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command with results of its own and a mutmut that is there; it runs none."""
    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "LIST", tmp_path / "accepted.toml")
    monkeypatch.setattr(command.importlib.util, "find_spec", lambda _name: object())
    (tmp_path / "accepted.toml").write_text("")
    return lambda *arguments: command.main([*arguments, "--report"])


@pytest.mark.parametrize(("killed", "code"), [(8, 1), (9, 0)])
def test_the_command_fails_under_90_percent(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], killed: int, code: int
) -> None:
    of_file = [mutant(number, Outcome.KILLED) for number in range(killed)]
    of_file += [mutant(number, Outcome.SURVIVED, WAS, BECOMES) for number in range(killed, 10)]
    results = Results(ROOT, tmp_path / "results")
    results.put("distro/protocol/tasks.py", of_file, results.source("distro/protocol/tasks.py"))
    assert run("distro/protocol/tasks.py") == code
    printed = capsys.readouterr().out
    assert f"distro/protocol/tasks.py: f\n    - {WAS}\n    + {BECOMES}\n" in printed
    assert printed.splitlines()[-1].replace("|", " ").split() == [
        "all",
        "10",
        "0",
        str(killed),
        "0",
        str(10 - killed),
        "0",
        f"{killed}0.0",
        "%",
    ]
