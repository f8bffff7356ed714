"""The recorder of walks, at a program whose calls are known."""

import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.walk import WIDTH, Figures, Step, Walk, WalkRecorder

PROGRAM = {
    "tiny/app.py": """
        from tiny.job import Second, values
        from tiny.fake.module import third

        def run():
            Second().work(helper)
            third(helper)
            return sorted([2, 1], key=helper)

        def helper(number):
            return [one for one in [number]]

        def counted():
            return sum(values())

        def broken():
            try:
                fails()
            except ValueError:
                helper(1)

        def fails():
            raise ValueError
        """,
    "tiny/job.py": """
        class Second:
            def work(self, then):
                self.more()
                then(1)

            def more(self):
                pass

        def values():
            yield 1
            yield 2
        """,
    "tiny/fake/module.py": """
        def third(then):
            then(3)
        """,
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Callable[[], object]]]:
    """The functions of ``tiny/app.py``, whose files are in ``tmp_path``."""
    for name, text in PROGRAM.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(dedent(text).lstrip())
    monkeypatch.syspath_prepend(str(tmp_path))
    yield runpy.run_path(str(tmp_path / "tiny/app.py"))
    for name in [one for one in sys.modules if one.partition(".")[0] == "tiny"]:
        del sys.modules[name]


def walk_of(root: Path, work: Callable[[], object]) -> Walk:
    """Return the walk of a thread that does this work, while another one does the same unwatched."""
    recorder, begin = WalkRecorder(root, ["tiny"], ["tiny/fake"]), threading.Event()

    def wait_and_work() -> None:
        begin.wait()
        work()

    watched, other = threading.Thread(target=wait_and_work, name="watched"), threading.Thread(target=wait_and_work)
    with recorder.watched():
        watched.start()
    other.start()

    def both() -> None:
        begin.set()
        watched.join()
        other.join()

    walks = recorder.record(both)
    assert walks.keys() == {"watched"}
    return walks["watched"]


def test_calls_files_and_returns(tmp_path: Path, program: dict[str, Callable[[], object]]) -> None:
    walk = walk_of(tmp_path, program["run"])
    app, job = "tiny/app.py", "tiny/job.py"
    assert walk.steps == (
        Step(0, app, "run", 4),
        Step(1, job, "Second.work", 2),
        Step(2, job, "Second.more", 6),
        Step(2, app, "helper", 9),
        Step(1, app, "helper", 9),
        Step(1, app, "helper", 9),
        Step(1, app, "helper", 9),
    )
    assert walk.figures == Figures(calls=7, files=2, returns=1)


def test_each_value_of_a_generator_is_a_call(tmp_path: Path, program: dict[str, Callable[[], object]]) -> None:
    walk = walk_of(tmp_path, program["counted"])
    assert [step.function for step in walk.steps] == ["counted", "values", "values", "values"]
    assert [step.depth for step in walk.steps] == [0, 1, 1, 1]


def test_a_function_that_raises_is_left(tmp_path: Path, program: dict[str, Callable[[], object]]) -> None:
    walk = walk_of(tmp_path, program["broken"])
    assert [(step.depth, step.function) for step in walk.steps] == [(0, "broken"), (1, "fails"), (1, "helper")]


def test_nothing_is_recorded_before_and_after(tmp_path: Path, program: dict[str, Callable[[], object]]) -> None:
    recorder = WalkRecorder(tmp_path, ["tiny"], [])
    with recorder.watched():
        thread = threading.Thread(target=program["run"])
        thread.start()
        thread.join()
    assert recorder.record(lambda: None) == {}
    assert recorder.record(program["run"]) == {}, "the thread that records is not watched"


def test_a_walk_as_text(tmp_path: Path, program: dict[str, Callable[[], object]]) -> None:
    assert walk_of(tmp_path, program["run"]).text.splitlines() == [
        f"{'   1 run':84} + tiny/app.py:4",
        f"{'   2  Second.work':84} + tiny/job.py:2",
        "   3   Second.more",
        f"{'   4   helper':84} < tiny/app.py:9",
        "   5  helper",
        "   6  helper",
        "   7  helper",
        "calls: 7, files: 2, returns: 1",
    ]


def test_no_line_is_too_long() -> None:
    steps = [Step(depth, f"app/{'folder/' * 6}{depth % 2}.py", "Function." * 9, 1_000) for depth in range(99)]
    assert {len(line) for line in Walk(steps).text.splitlines()[:-1]} == {WIDTH}


def test_an_empty_walk() -> None:
    assert Walk(()).figures == Figures(0, 0, 0)
