"""The HTTP benchmark: what it sends, what it asks of a server beforehand, and what it makes of figures."""

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from scripts.bench.load import MODES, LoadError, Mode, Wrk, WrkRun, fill, find_wrk, parse_wrk
from scripts.bench.peers import CannotStart, nodes_of_nacos, rnacos
from scripts.bench.report import ALONE, CLUSTER, Results, Row, Sample, cpu_model, overview, plot, series, tables
from tests.support.tiny_server import Given, Received, refusing_address, tiny_server

BEAT, MIXED = MODES["beat"], MODES["mixed"]
SMALL = Mode("small", "a small load", "beat", services=3, hosts=2)
OURS, THEIRS = "Rollcall", "Other 1.0"
GROUP = "DEFAULT_GROUP@@"
JSON = {"Content-Type": "application/json"}


def run(requests: int = 1_000, seconds: float = 2.0, p99_ms: float = 3.0, refused: int = 0, wrong: int = 0) -> WrkRun:
    return WrkRun(requests, seconds, requests * 100, 1.0, p99_ms, 9.0, refused, 0, wrong)


def fields(request: Received) -> dict[str, str]:
    """The parameters of query and form of a request, which must be given once each."""
    query = urlsplit(request.target).query
    found = parse_qs(f"{query}&{request.body.decode()}", keep_blank_values=True)
    assert all(len(values) == 1 for values in found.values())
    return {name: value for name, [value] in found.items()}


# --- what is sent ----------------------------------------------------------------------------------


def sent(
    mode: Mode, threads: int = 1, java: bool = False, answer: Callable[[Received], Given] = lambda _: Given()
) -> tuple[list[Received], WrkRun]:
    """What wrk sends in a second, on a connection for each of its threads, and what it makes of the answers."""
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    with tiny_server(answer) as server:
        found = Wrk(find_wrk(), threads, java).run(server.address, mode, threads, 1, check=True)
    return server.received, found


def test_each_thread_of_wrk_has_instances_of_its_own() -> None:
    received, found = sent(Mode("", "", "register", services=3, hosts=3), threads=2)
    assert found.requests > 9
    assert (found.refused, found.errors, found.wrong) == (0, 0, 0)
    by_connection: dict[int, Counter[tuple[str, str]]] = {}
    for request in received:
        assert (request.method, urlsplit(request.target).path) == ("POST", "/nacos/v1/ns/instance")
        assert request.headers["user-agent"] == "Nacos-Java-Client:v1.4.1"
        assert "%40%40" in request.target
        assert fields(request)["metadata"] == '{"zone":"a"}'
        named = fields(request)["serviceName"], fields(request)["ip"]
        by_connection.setdefault(request.connection, Counter())[named] += 1
    # One more connection comes from wrk's look at whether anybody is there.
    shares = [counts for counts in by_connection.values() if len(counts) > 1]
    assert sorted(map(len, shares)) == [4, 5]
    assert not shares[0].keys() & shares[1].keys()


def test_full_beats_are_of_the_instances_that_were_put_there_in_forms_as_of_the_java_library() -> None:
    mode = Mode("", "", "full", services=3, hosts=260)
    received, _ = sent(mode)
    made = [fields(request) for request in received]
    assert {(one["serviceName"], one["ip"]) for one in made} <= {
        (GROUP + mode.service(number), ip) for number in range(3) for ip in mode.ips(number)
    }
    first = [(one["serviceName"], one["ip"]) for one in made[:700]]
    assert len(set(first)) == len(first), "each is another instance's"
    request = received[0]
    assert request.method == "PUT"
    assert request.headers["content-type"].startswith("application/x-www-form-urlencoded")
    assert request.body.startswith(b"beat=%7B%22port%22%3A8080%2C")
    assert "beat=" not in request.target
    assert json.loads(made[0]["beat"]) == {
        "port": 8080,
        "ip": made[0]["ip"],
        "weight": 1.0,
        "serviceName": made[0]["serviceName"],
        "cluster": "DEFAULT",
        "metadata": {"zone": "a"},
        "scheduled": False,
        "period": 5000,
        "stopped": False,
    }


def test_no_two_changes_and_no_two_requests_of_the_java_library_are_the_same() -> None:
    received, _ = sent(Mode("", "", "change", services=1, hosts=1), java=True)
    metadata = [fields(request)["metadata"] for request in received]
    assert len(set(metadata)) == len(metadata)
    assert all(set(json.loads(one)) == {"zone", "change"} for one in metadata)
    numbers = [request.headers["requestid"] for request in received]
    assert len(set(numbers)) == len(numbers)
    assert received[-1].headers["request-module"] == "Naming"


def kinds(received: list[Received]) -> Counter[tuple[str, str]]:
    return Counter((request.method, urlsplit(request.target).path.rpartition("/")[2]) for request in received)


def test_a_mixed_load_is_mostly_beats() -> None:
    received, found = sent(Mode("", "", "mixed", services=2, hosts=2))
    counts = kinds(received)
    assert set(counts) == {("PUT", "beat"), ("GET", "list"), ("POST", "instance"), ("DELETE", "instance")}
    assert counts["PUT", "beat"] > counts["GET", "list"] > counts["POST", "instance"]
    assert 0 <= counts["POST", "instance"] - counts["DELETE", "instance"] <= 5
    assert found.wrong == 0


def test_churn_brings_new_instances_and_removes_the_oldest() -> None:
    """Each thread keeps its share of the instances; no run and no thread brings one that another has brought."""
    mode = Mode("", "", "churn", services=3, hosts=4)
    seen = set[tuple[str, str]]()
    for _ in range(2):
        received, found = sent(mode, threads=2)
        assert (found.refused, found.errors, found.wrong) == (0, 0, 0)
        live: dict[int, list[tuple[str, str]]] = {}
        for request in received:
            named = fields(request)["serviceName"], fields(request)["ip"]
            of_thread = live.setdefault(request.connection, [])
            if request.method == "POST":
                assert named not in seen, "new"
                seen.add(named)
                of_thread.append(named)
                assert set(json.loads(fields(request)["metadata"])) == {"version", "start"}
            else:
                assert request.method == "DELETE"
                assert named == of_thread.pop(0), "the oldest"
            assert len(of_thread) <= 7
        assert sum(count > 0 for count in map(len, live.values())) == 2
    assert {name for name, _ in seen} == {f"{GROUP}churned-4-{number}" for number in range(3)}


def test_updates_draw_weight_and_metadata() -> None:
    mode = Mode("", "", "update", services=2, hosts=2)
    received, _ = sent(mode)
    assert set(kinds(received)) == {("PUT", "instance")}
    made = [fields(request) for request in received]
    assert {one["ip"] for one in made} == {ip for number in range(2) for ip in mode.ips(number)}
    weights = {int(one["weight"]) for one in made}
    assert len(weights) > 9
    assert weights <= set(range(1, 101))
    assert len({one["metadata"] for one in made}) == len(made)


@pytest.mark.parametrize("right", [True, False])
def test_wrk_counts_answers_that_are_not_what_they_should_be(right: bool) -> None:
    given = {
        True: [b'{"clientBeatInterval":5000,"code":10200}', b'{"hosts":[{"instanceId":"a"},{"instanceId":"b"}]}'],
        False: [b'{"clientBeatInterval":5000,"code":20404}', b'{"hosts":[{"instanceId":"a"}]}', b"caused: ", b""],
    }
    bodies = itertools.cycle(given[right])
    received, found = sent(
        Mode("", "", "list", services=1, hosts=2), answer=lambda _: Given(body=next(bodies), headers=JSON)
    )
    assert len(received) >= len(given[right])
    assert found.refused == 0
    assert found.wrong == (0 if right else found.requests)


def test_a_server_that_is_not_there_is_an_error() -> None:
    if shutil.which("wrk") is None:
        pytest.skip("wrk is not installed")
    with pytest.raises(LoadError):
        Wrk("wrk").run(refusing_address(), BEAT, 1, 1)


def test_the_command_of_wrk() -> None:
    command = Wrk("wrk", threads=2, java=True).command("host:1", MODES["list1000-gzip"], 32, 3)
    assert command[:4] == ["wrk", "-t2", "-c32", "-d3s"]
    assert " ".join(command[-8:]) == "http://host:1 -- list 2 2 1000 gzip java"


def test_that_wrk_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LoadError, match="wrk is not installed"):
        find_wrk()


def test_the_line_of_the_script_is_found_among_what_wrk_says() -> None:
    made = {"requests": 10, "seconds": 1.5, "bytes": 100, "p50_ms": 1, "p99_ms": 2, "max_ms": 3, "refused": 4}
    line = json.dumps({**made, "errors": 5, "wrong": 6})
    assert parse_wrk(f"Running 1s test\n  10 requests in 1.50s\n{line}\n") == WrkRun(10, 1.5, 100, 1, 2, 3, 4, 5, 6)
    assert parse_wrk("Running 1s test\n") is None


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_no_two_instances_are_the_same(mode: Mode) -> None:
    made = [(mode.service(number), ip) for number in range(mode.services) for ip in mode.ips(number)]
    assert len(set(made)) == len(made) == mode.services * mode.hosts


# --- what is put there -----------------------------------------------------------------------------


class Registry:
    """A server that knows instances, and the first ``forgetful`` beats of none."""

    def __init__(self, forgetful: int = 0) -> None:
        self.held: dict[tuple[str, str], object] = {}
        self.forgetful = forgetful
        self.beaten: list[tuple[str, str]] = []

    def __call__(self, request: Received) -> Given:
        given = fields(request)
        key = given["serviceName"], given.get("ip", "")
        if request.method == "GET":
            hosts = [{"ip": ip, "metadata": made} for (name, ip), made in self.held.items() if name == key[0]]
            return Given(body=json.dumps({"hosts": hosts}).encode(), headers=JSON)
        if request.method == "POST":
            self.held[key] = json.loads(given["metadata"])
            return Given()
        self.beaten.append(key)
        if self.forgetful:
            self.forgetful -= 1
            self.held.pop(key, None)
        code = 10_200 if key in self.held else 20_404
        return Given(body=b'{"code":%d}' % code, headers=JSON)


def wanted() -> dict[tuple[str, str], object]:
    return {(GROUP + SMALL.service(n), ip): {"zone": "a"} for n in range(SMALL.services) for ip in SMALL.ips(n)}


def test_all_instances_are_there_and_beaten_for() -> None:
    registry = Registry()
    with tiny_server(registry) as server:
        fill([server.address], SMALL)
        assert registry.held == wanted()
        assert sorted(registry.beaten) == sorted(wanted())
        posts = sum(request.method == "POST" for request in server.received)
        fill([server.address], SMALL)
        assert sum(request.method == "POST" for request in server.received) == posts, "they were there"


def test_an_instance_that_is_lost_or_bare_is_registered_again() -> None:
    registry = Registry(forgetful=2)
    registry.held[next(iter(wanted()))] = {}
    with tiny_server(registry) as server:
        fill([server.address], SMALL)
    assert registry.held == wanted()


def test_a_refusal_beforehand_is_an_error() -> None:
    with (
        tiny_server(lambda _: Given(status=503, body=b"server is STARTING")) as server,
        pytest.raises(LoadError, match="503 b'server is STARTING'"),
    ):
        fill([server.address], SMALL)


# --- servers ---------------------------------------------------------------------------------------


def test_the_process_of_nacos_is_read_from_what_its_starter_says() -> None:
    said = (
        "nacos 1.4.1 standalone ready after 9 s\nnode http=8848 raft=7848 pid=4711\nnode http=8948 raft=7948 pid=42\n"
    )
    assert nodes_of_nacos(said) == {8848: 4711, 8948: 42}
    with pytest.raises(CannotStart):
        nodes_of_nacos("")


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="is no program"), rnacos(tmp_path / "rnacos", 1, tmp_path):
        pass


def test_a_program_that_ends_is_said(tmp_path: Path) -> None:
    program = tmp_path / "rnacos"
    program.write_text("#!/bin/sh\necho it broke\n")
    program.chmod(0o700)
    with pytest.raises(CannotStart, match="it broke"), rnacos(program, 1, tmp_path):
        pass


def test_the_model_of_the_processor() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: A Processor 3000\nflags\t: x\n") == "A Processor 3000"
    assert cpu_model("processor\t: 0\n")


# --- figures ---------------------------------------------------------------------------------------


def results(*given: tuple[str, Mode, int, str, float]) -> Results:
    """Results of one turn each: place, mode, connections, server, CPU time of a request in µs."""
    made = Results(OURS)
    for place, mode, connections, server, cpu_us in given:
        made.row(place, mode, connections, server).samples.append(Sample(run(), cpu_us / 1_000))
    return made


def test_a_row_gives_the_medians_of_its_turns() -> None:
    row = Row(ALONE, BEAT, 32, OURS)
    row.samples += [
        Sample(run(1_000, p99_ms=1), 0.010),
        Sample(run(4_000, p99_ms=9), 0.400),
        Sample(run(2_000, p99_ms=2), 0.040),
    ]
    found = row.as_dict(None)
    assert (found["req_s"], found["p99_ms"], found["cpu_us"], found["bytes"]) == (1_000, 2, 20.0, 100)
    assert [turn["cpu_s"] for turn in found["turns"]] == [0.01, 0.4, 0.04]


def test_bad_answers_of_all_turns_and_of_those_beforehand_are_counted() -> None:
    made = results()
    ours, theirs = made.row(ALONE, BEAT, 32, OURS), made.row(ALONE, BEAT, 32, THEIRS)
    theirs.samples.append(Sample(run(refused=9), 1.0))
    assert made.bad_of_ours == 0
    ours.samples += [Sample(run(refused=1), 1.0), Sample(run(refused=2), 1.0)]
    ours.wrong = 3
    assert (ours.bad, made.bad_of_ours) == (6, 6)


def test_a_load_that_we_fail_under_is_bad_and_has_no_figures() -> None:
    made = results()
    made.row(ALONE, BEAT, 32, OURS).failed = 1
    assert made.rows == []
    assert made.bad_of_ours == 1


def test_ratios_are_between_rows_of_the_same_load() -> None:
    made = results(
        (ALONE, BEAT, 32, OURS, 10.0),
        (ALONE, BEAT, 32, THEIRS, 25.0),
        (ALONE, BEAT, 500, THEIRS, 99.0),
        (CLUSTER, BEAT, 32, OURS, 30.0),
    )
    assert list(map(made.times_ours, made.rows)) == [1.0, 2.5, None, 1.0]
    cluster = results((CLUSTER, BEAT, 32, OURS, 30.0), (CLUSTER, BEAT, 32, THEIRS, 45.0))
    assert list(map(cluster.times_ours, cluster.rows)) == [1.0, 1.5]


def test_tables_are_of_one_place_each() -> None:
    made = results((ALONE, BEAT, 32, OURS, 10.0), (ALONE, BEAT, 32, THEIRS, 25.0), (CLUSTER, MIXED, 500, OURS, 30.0))
    alone, cluster = tables(made).split("Through one member")
    assert "| light beat | 32 | Other 1.0 | 500 | 1.00 | 3.00 | 25.0 | 2.50 | 100 | 0 |" in alone
    assert "| mixed 80/15/5 | 500 | Rollcall | 500 | 1.00 | 3.00 | 30.0 | 1.00 | 100 | 0 |" in cluster
    widths = {line.count("|") for line in itertools.chain(alone.splitlines(), cluster.splitlines()) if line[:1] == "|"}
    assert len(widths) == 1


def test_the_overview_has_a_line_a_load_and_a_column_a_server() -> None:
    made = results((ALONE, BEAT, 32, OURS, 10.0), (ALONE, MIXED, 32, THEIRS, 2_500.0), (CLUSTER, BEAT, 500, OURS, 30.0))
    few, many = overview(made).split("500 connections")
    assert [line for line in few.splitlines() if line.startswith("|")] == [
        "| load | Rollcall | Other 1.0 |",
        "|---|---|---|",
        "| light beat | 10.0 / 500 / 3.0 |  |",
        "| mixed 80/15/5 |  | 2,500.0 / 500 / 3.0 |",
    ]
    assert "| light beat | 30.0 / 500 / 3.0 |" in many
    assert "| load | Rollcall, one of three |" in many


def test_the_plot_shows_each_server_at_the_fewest_connections(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = results(
        (ALONE, BEAT, 32, OURS, 10.0),
        (ALONE, BEAT, 500, OURS, 11.0),
        (ALONE, MIXED, 32, OURS, 12.0),
        (ALONE, BEAT, 32, THEIRS, 25.0),
        (CLUSTER, MIXED, 32, OURS, 30.0),
    )
    connections, loads, drawn = series(made)
    assert (connections, loads) == (32, ["light beat", "mixed 80/15/5"])
    assert [(one.title, one.cpu_us) for one in drawn] == [
        ("Rollcall", (10.0, 12.0)),
        ("Other 1.0", (25.0, None)),
        ("Rollcall, one of three", (None, 30.0)),
    ]
    plot(made, tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
