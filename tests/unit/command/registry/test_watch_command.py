"""``rollcall watch``: what it tells of the difference of two looks, and how it goes on."""

import json
from collections.abc import Callable

import pytest

from app.tools.command.registry import watch_command
from app.tools.command.registry.seen_changes import SeenHappening, changes, seen_instance, seen_service
from tests.support.command_node import Commands
from tests.support.tiny_server import Given, Received, tiny_server

FACTS = {"health": "healthy", "weight": "1"}


def test_what_differs() -> None:
    before = {"a": FACTS, "b": FACTS, "c": FACTS}
    now = {"b": FACTS, "c": {**FACTS, "health": "UNHEALTHY"}, "d": FACTS}
    told = [(one.happening, one.name, one.text()) for one in changes(before, now)]
    assert told == [
        (SeenHappening.WENT, "a", "health healthy, weight 1"),
        (SeenHappening.CHANGED, "c", "health healthy -> UNHEALTHY"),
        (SeenHappening.APPEARED, "d", "health healthy, weight 1"),
    ]
    assert not list(changes(now, now))


def test_the_age_of_a_beat_is_no_change() -> None:
    row = {"ip": "10.0.0.1", "port": 80, "clusterName": "DEFAULT", "healthy": True, "weight": 1.0, "lastBeat": 1}
    assert seen_instance("s", row) == seen_instance("s", {**row, "lastBeat": 2})
    assert seen_instance("s", row) != seen_instance("s", {**row, "weight": 2.0})
    assert seen_service({"name": "a", "groupName": "g", "ipCount": 2, "healthyInstanceCount": 1}) == (
        "g@@a", {"instances": "2", "healthy": "1"},
    )  # fmt: skip


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens in place of each pause of a watch; the keyboard ends it when none is left."""
    left: list[Callable[[], object]] = []

    class Pause:
        def wait(self, _timeout_s: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

    monkeypatch.setattr(watch_command, "Event", Pause)
    return left


@pytest.fixture
def change(command: Commands, capsys: pytest.CaptureFixture[str]) -> Callable[..., Callable[[], object]]:
    """A step in which another command runs, and what was printed so far stays."""
    from app.tools.cli import main

    def make(*arguments: str) -> Callable[[], object]:
        return lambda: main([*arguments, "--server", command.server])

    return make


def signs(out: str) -> list[str]:
    """The lines of a watch without their times."""
    return [line[9:] for line in out.splitlines() if line[2:3] == ":"]


def test_instances(
    command: Commands, steps: list[Callable[[], object]], change: Callable[..., Callable[[], object]]
) -> None:
    command("register", "orders", "10.0.0.1:80", "--persistent")
    steps += [
        change("register", "orders", "10.0.0.2:80", "--metadata", "v=1"),
        change("register", "orders", "10.0.0.2:80", "--weight", "3"),
        lambda: None,
        change("deregister", "orders", "10.0.0.1:80"),
    ]
    ran = command("watch", "orders")
    assert ran.code == 0
    assert signs(ran.out) == [
        "  orders 10.0.0.1:80 (DEFAULT)  health healthy, enabled yes, weight 1, kind persistent",
        "+ orders 10.0.0.2:80 (DEFAULT)  health healthy, enabled yes, weight 1, kind ephemeral, metadata v=1",
        "~ orders 10.0.0.2:80 (DEFAULT)  weight 1 -> 3, metadata v=1 -> -",
        "- orders 10.0.0.1:80 (DEFAULT)  health healthy, enabled yes, weight 1, kind persistent",
    ]
    assert "1 instances at" in ran.err
    assert "ended, changes: 3" in ran.err


def test_services_as_json(
    command: Commands, steps: list[Callable[[], object]], change: Callable[..., Callable[[], object]]
) -> None:
    steps += [change("register", "orders", "10.0.0.1:80", "--json")]
    ran = command("watch", "--json", "--changes", "1")
    line = next(one for one in ran.out.splitlines() if one.startswith('{"at"'))
    told = json.loads(line)
    assert (told["what"], told["name"], told["now"]) == ("appeared", "orders", {"instances": "1", "healthy": "1"})


def test_it_goes_on_while_the_server_does_not_answer(command: Commands, steps: list[Callable[[], object]]) -> None:
    page = json.dumps({"count": 0, "serviceList": []}).encode()
    filled = json.dumps({"count": 1, "serviceList": [{"name": "a", "groupName": "DEFAULT_GROUP"}]}).encode()
    answers = [Given(200, page), Given(503, b"busy"), Given(503, b"busy"), Given(200, filled)]
    steps += [lambda: None] * 3

    def answer(received: Received) -> Given:
        return answers.pop(0) if "/catalog/services" in received.target else Given(501)

    with tiny_server(answer) as server:
        ran = command("watch", "--server", server.address)
    assert ran.code == 0
    assert signs(ran.out) == ["+ a  "]
    assert [text in ran.err for text in ("-- retrying", "the server answers again")] == [True, True]
    assert ran.err.count("retrying") == 1


def test_a_service_that_never_was_and_one_that_goes(command: Commands, steps: list[Callable[[], object]]) -> None:
    assert command("watch", "nosuch").code == 5
    page = json.dumps(
        {"code": 0, "message": "success", "data": {"count": 1, "instances": [{"ip": "10.0.0.1", "port": 1}]}}
    )
    gone = json.dumps({"code": 20_004, "message": "resource not found", "data": "gone"})
    answers = [Given(200, page.encode()), Given(404, gone.encode())]
    steps += [lambda: None]

    def answer(received: Received) -> Given:
        return answers.pop(0) if "/catalog/instances" in received.target and answers else Given(404, gone.encode())

    with tiny_server(answer) as server:
        ran = command("watch", "orders", "--server", server.address, "--changes", "1")
    assert ran.code == 0
    assert signs(ran.out)[-1].startswith("- orders 10.0.0.1:1")


def test_it_rests_in_proportion_to_what_a_look_costs(command: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    class Pause:
        def wait(self, timeout_s: float) -> None:
            asked.append(timeout_s)
            raise KeyboardInterrupt

    monkeypatch.setattr(watch_command, "Event", Pause)
    monkeypatch.setattr(watch_command, "REST", 1e6)
    assert command("watch").code == 0
    assert asked[0] > 1.0
