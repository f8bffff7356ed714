"""The command: rounds, absent members, exit codes, and what is left on the disk in each case."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import fsspec
import orjson
import pytest

pytest.importorskip("pyarrow")

from app.tools.audit.format.columns import rows_of_parquet
from app.tools.audit.format.layout import read_night
from app.tools.audit.format.manifest import DumpState, Manifest
from app.tools.cli import main
from tests.support.dumps import digests_of
from tests.support.dumps import instance as whole_instance
from tests.support.dumps import service as whole_service
from tests.support.fake_nacos import FakeNacos, instance
from tests.support.processes import eventually
from tests.support.tiny_server import Given, Received, TinyServer, refusing_address, tiny_server

ORDERS = ("public", "DEFAULT_GROUP@@orders")
NIGHT = "2026-11-21"
NDJSON = {"Content-Type": "application/x-ndjson"}
Serve = Callable[[Callable[[Received], Given]], TinyServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as servers:
        yield lambda answer: servers.enter_context(tiny_server(answer))


@pytest.fixture(autouse=True)
def no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROLLCALL")]:
        monkeypatch.delenv(name)


def member(address: str = "10.0.0.1:8848", instances: int = 1, version: int = 1) -> Callable[[Received], Given]:
    """A member of our own kind with one service."""
    shared = {"namespace": "public", "service": ORDERS[1], "owner": "10.0.0.1:8848"}
    seen = [{"address": f"10.0.0.{number}:8848", "state": "UP"} for number in (1, 2)]
    lines = [
        {"kind": "member", "format": version, "address": address, "version": "0.1.0", "members": seen},
        {"kind": "service", **shared},
        *[{"kind": "instance", **shared, "ip": f"10.1.0.{number}", "port": 80} for number in range(instances)],
        {"kind": "end", "services": 1, "instances": instances},
    ]
    body = b"".join(orjson.dumps(one) + b"\n" for one in lines)
    return lambda _: Given(200, body, dict(NDJSON))


def dump(out: Path | str, *members: TinyServer | str, options: tuple[str, ...] = ()) -> int:
    addresses = ",".join(one if isinstance(one, str) else one.address for one in members)
    fast = ("--gap", "50ms", "--timeout", "2s", "--retries", "0", "--date", NIGHT)
    return main(["dump", "--members", addresses, "--out", str(out), *fast, *options])


def rounds(out: Path | str) -> list[Manifest]:
    return [one.manifest for one in read_night(str(out), NIGHT).rounds]


def test_two_rounds_of_all_members(tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = serve(member(instances=2)), serve(member("10.0.0.2:8848"))
    assert dump(tmp_path, first, second) == 0
    written = capsys.readouterr()
    assert written.out == f"{tmp_path}/dump_date={NIGHT}\n"
    *counts, last = written.err.splitlines()
    assert counts == [
        "round 1: 2 of 2 members, 2 services, 3 instances",
        "round 2: 2 of 2 members, 2 services, 3 instances",
    ]
    assert re.fullmatch(r"rollcall: dumped 2 of 2 members in 2 rounds; took [0-9]+\.[0-9] s", last)
    one, two = rounds(tmp_path)
    assert (one.round, two.round, one.run, one.gap_s) == (1, 2, two.run, 0.05)
    assert one.taken_at < two.taken_at
    for manifest, found in zip((one, two), read_night(str(tmp_path), NIGHT).rounds, strict=True):
        # By the name that it gives itself, by which the owners in rows are named; the folder is by the one asked for.
        assert [entry.address for entry in manifest.members] == ["10.0.0.1:8848", "10.0.0.2:8848"]
        assert [seen.address for seen in manifest.members[0].members] == ["10.0.0.1:8848", "10.0.0.2:8848"]
        entry = manifest.members[0]
        assert (entry.kind, entry.services, entry.instances, entry.error) == ("rollcall", 1, 2, "")
        [part] = entry.parts
        assert part.path.startswith(f"member={first.address.replace(':', '_')}/")
        with Path(found.folder, part.path).open("rb") as file:
            rows = list(rows_of_parquet(file))
        assert [row["kind"] for row in rows if row] == ["service", "instance", "instance"]


def test_digests_of_the_rows_are_in_the_manifest_of_parquet(tmp_path: Path, serve: Serve) -> None:
    rows = [whole_service(instances=2), whole_instance(1), whole_instance(2)]
    lines = [
        {"kind": "member", "format": 1, "address": "", "version": "0.1.0", "members": []},
        *rows,
        {"kind": "linked", "name": "link"},
        {"kind": "end", "services": 1, "instances": 2},
    ]
    body = b"".join(orjson.dumps(one) + b"\n" for one in lines)
    one = serve(lambda _: Given(200, body, dict(NDJSON)))
    expected = digests_of(rows)
    assert expected is not None
    for part_format, digests in (("parquet", expected), ("json", None)):
        out = tmp_path / part_format
        assert dump(out, one, options=("--format", part_format)) == 0
        assert [entry.digests for manifest in rounds(out) for entry in manifest.members] == [digests] * 2


def test_json_on_request(tmp_path: Path, serve: Serve) -> None:
    assert dump(tmp_path, serve(member()), serve(member("10.0.0.2:8848")), options=("--format", "json")) == 0
    found = read_night(str(tmp_path), NIGHT).rounds[0]
    for entry in found.manifest.members:
        [part] = entry.parts
        rows = gzip.decompress(Path(found.folder, part.path).read_bytes()).splitlines()
        assert [orjson.loads(row)["kind"] for row in rows] == ["service", "instance"]


def test_without_pyarrow_it_is_json_unless_parquet_is_asked_for(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.tools.audit.dump.command.has_parquet", lambda: False)
    assert dump(tmp_path, serve(member()), serve(member("10.0.0.2:8848"))) == 0
    assert len(list(tmp_path.rglob("*.jsonl.gz"))) == 4
    assert dump(tmp_path, serve(member()), options=("--format", "parquet")) == 2
    assert (
        "--format parquet needs the package pyarrow: pip install 'rollcall-registry[audit]'" in capsys.readouterr().err
    )


def test_fields_of_a_later_release_are_named_in_the_manifest(tmp_path: Path, serve: Serve) -> None:
    later = serve(lambda given: Given(200, member()(given).body.replace(b'"ip"', b'"tomorrow":1,"ip"'), dict(NDJSON)))
    assert dump(tmp_path, later) == 0
    assert [one.unknown_fields for manifest in rounds(tmp_path) for one in manifest.members] == [["tomorrow"]] * 2


def test_a_member_that_does_not_answer_is_a_finding(
    tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = refusing_address()
    assert dump(tmp_path, serve(member()), nobody) == 1
    assert f"rollcall: round 1: member {nobody} is absent: /v1/ns/operator/dump: connection refused" in (
        capsys.readouterr().err
    )
    for manifest in rounds(tmp_path):
        there, absent = manifest.members
        assert (there.state, absent.state) == (DumpState.DUMPED, DumpState.ABSENT)
        assert (absent.address, absent.parts, absent.instances) == (nobody, [], 0)


def test_one_that_breaks_off_leaves_no_rows(tmp_path: Path, serve: Serve) -> None:
    whole = member(instances=1_000)(Received("GET", "/", {}, b"", 0)).body
    broken = serve(lambda _: Given(200, whole, dict(NDJSON), cut_at=len(whole) // 2))
    assert dump(tmp_path, serve(member()), broken, options=("--retries", "1")) == 1
    assert len(broken.received) == 4, "twice a round"
    [manifest, _] = rounds(tmp_path)
    assert "ended early" in manifest.members[1].error
    assert {path.name for path in tmp_path.glob("*/*/member=*")} == {manifest.members[0].parts[0].path.split("/")[0]}


def test_a_retry_begins_anew_with_nothing_of_the_first(tmp_path: Path, serve: Serve) -> None:
    whole = member(instances=1_000)(Received("GET", "/", {}, b"", 0)).body
    left = [Given(200, whole, dict(NDJSON), cut_at=len(whole) // 2)]
    server = serve(lambda _: left.pop() if left else Given(200, whole, dict(NDJSON)))
    assert dump(tmp_path, server, options=("--retries", "1")) == 0
    assert [one.members[0].instances for one in rounds(tmp_path)] == [1_000, 1_000]
    assert [part.rows for part in rounds(tmp_path)[0].members[0].parts] == [1_001]


def test_nothing_dumped_is_another_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "dump_date=2020-01-01"
    old.mkdir()
    assert dump(tmp_path, refusing_address(), options=("--keep", "1")) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert [one.members[0].state for one in rounds(tmp_path)] == [DumpState.ABSENT] * 2
    assert old.exists(), "what there is of earlier nights is not given away for nothing"


def test_another_format_is_named(tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(tmp_path, serve(member(version=2)), options=("--retries", "3")) == 2
    assert "its format is 2; this version reads 1" in capsys.readouterr().err


def test_what_was_dumped_as_json(tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = refusing_address()
    assert dump(tmp_path, serve(member(instances=3)), nobody, options=("--json",)) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["folder"].endswith(f"dump_date={NIGHT}")
    for number, one in enumerate(told["rounds"], 1):
        there, absent = one["members"]
        assert (one["round"], there["state"], there["instances"], there["error"]) == (number, "dumped", 3, None)
        assert (absent["address"], absent["state"]) == (nobody, "absent")
        assert "connection refused" in absent["error"]


def test_a_run_may_have_a_name(tmp_path: Path, serve: Serve) -> None:
    first, second = serve(member()), serve(member("10.0.0.2:8848"))
    assert dump(tmp_path, first, second, options=("--run", "20261120T031500Z-42")) == 0
    assert [one.run for one in rounds(tmp_path)] == ["20261120T031500Z-42"] * 2
    with pytest.raises(SystemExit):
        dump(tmp_path, first, second, options=("--run", "a b"))


def test_members_that_name_themselves_alike_keep_the_names_that_were_given(tmp_path: Path, serve: Serve) -> None:
    first, second = serve(member()), serve(member())
    assert dump(tmp_path, first, second) == 0
    [one, other] = rounds(tmp_path)[0].members
    assert [one.address, other.address] == [first.address, second.address]
    assert one.own_address == other.own_address != "", "so that the check can refuse them"


def test_one_absent_in_the_second_round_goes_by_the_name_it_had(tmp_path: Path, serve: Serve) -> None:
    answers = [member("10.0.0.2:8848")]
    failing = serve(lambda received: answers.pop()(received) if answers else Given(404, b"gone"))
    assert dump(tmp_path, serve(member()), failing) == 1
    states = [(one.members[1].address, one.members[1].state.value) for one in rounds(tmp_path)]
    assert states == [("10.0.0.2:8848", "dumped"), ("10.0.0.2:8848", "absent")]


def test_the_gap_is_from_start_to_start_and_members_are_asked_at_once(tmp_path: Path, serve: Serve) -> None:
    both = Event()
    asked: list[float] = []
    members = [member(), member("10.0.0.2:8848")]

    def answer(number: int, received: Received) -> Given:
        asked.append(time.monotonic())
        if len(asked) == 2:
            both.set()
        assert both.wait(60.0), "the second is asked before the first has answered"
        return members[number](received)

    servers = [serve(lambda received, number=number: answer(number, received)) for number in range(2)]  # type: ignore[misc]
    begun_s = time.monotonic()
    assert dump(tmp_path, *servers, options=("--gap", "600ms")) == 0
    first, second = rounds(tmp_path)
    assert 0.59 < min(asked[2:]) - begun_s < 60.0
    snapshots = [datetime.strptime(one.taken_at, "%Y%m%dT%H%M%S.%fZ") for one in (first, second)]
    assert timedelta(seconds=0.59) < snapshots[1] - snapshots[0] < timedelta(seconds=60)


def test_the_members_may_come_from_one_of_them(tmp_path: Path, serve: Serve) -> None:
    first, other = serve(member()), refusing_address()
    fake = FakeNacos(members={first.address: "UP", other: "DOWN"})
    asked = serve(fake)
    options = ["--gap", "0", "--timeout", "2s", "--retries", "0", "--date", NIGHT]
    url = f"http://{asked.address}/nacos/"
    assert main(["dump", "--from-cluster", url, "--out", str(tmp_path), *options]) == 1
    assert [one.address for one in rounds(tmp_path)[0].members] == ["10.0.0.1:8848", other]


def test_other_kinds_and_another_file_system(serve: Serve) -> None:
    uri = "memory://test-dump-command"
    held = [instance("10.1.0.1")]
    first = serve(FakeNacos(datums={ORDERS: held}, shown={ORDERS: held}))
    second = serve(FakeNacos("2.3.1", address="10.0.0.2:8848", shown={ORDERS: held, ("a", "g@@s"): held}))
    try:
        assert dump(uri, first, second, options=("--namespaces", "a,b", "--namespaces", "a")) == 0
        [manifest, _] = rounds(uri)
    finally:
        fsspec.filesystem("memory").rm(uri, recursive=True)
    assert [(one.kind, one.version, one.instances) for one in manifest.members] == [
        ("nacos-1", "1.4.1", 1),
        ("catalog", "2.3.1", 2),
    ]


def test_old_nights_are_removed_after_a_dump(tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("dump_date=2026-11-13", "dump_date=2026-11-14", "findings"):
        (tmp_path / name).mkdir()
    assert dump(tmp_path, serve(member()), options=("--keep", "7")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "dump_date=2026-11-14", f"dump_date={NIGHT}", "findings",
    ]  # fmt: skip
    assert "removed the night 2026-11-13" in capsys.readouterr().err


def test_without_a_date_it_is_today(tmp_path: Path, serve: Serve) -> None:
    before = f"{datetime.now(UTC):%Y-%m-%d}"
    arguments = ["dump", "--members", serve(member()).address, "--out", str(tmp_path), "--gap", "0"]
    assert main(arguments) == 0
    [folder] = tmp_path.iterdir()
    assert folder.name in {f"dump_date={before}", f"dump_date={datetime.now(UTC):%Y-%m-%d}"}


def test_a_bar_on_request(tmp_path: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve(member(instances=2_500))
    assert dump(tmp_path, server, options=("--progress",)) == 0
    shown = capsys.readouterr().err
    assert "round 2: 2.50k rows" in shown
    assert "1 of 1 members" in shown
    assert dump(tmp_path, server) == 0
    assert "rows" not in capsys.readouterr().err, "no terminal, no bar"


class TestWrongWords:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("--members", "a:99999"), "'a:99999' is not a member address: its port"),
            (("--members", " , "), "no member is given"),
            (("--from-cluster", "ftp://a"), "'ftp://a' is not the URL of a member"),
            (("--from-cluster", "http://u:p@a"), "is not the URL of a member"),
            (
                ("--members", "a", "--user", "u"),
                "--user needs --password-file, or the variable ROLLCALL_AUDIT_PASS",
            ),
            (("--members", "a", "--user", "u", "--password-file", "/no/such"), "/no/such cannot be read"),
            (("--members", "a", "--password-file", "/no/such"), "--password-file needs --user"),
            (("--members", "a", "--identity", "word"), "an identity should be KEY:VALUE"),
            (("--from-cluster", "http://a", "--identity", "a:b"), "--identity is only sent to members that you name"),
            (("--members", "a", "--out", "nosuch://x"), "nosuch://x cannot be written"),
        ],
    )
    def test_are_named_in_one_line(
        self, tmp_path: Path, arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["dump", "--out", str(tmp_path / "out"), "--retries", "0", *arguments]) == 2
        written = capsys.readouterr()
        assert text in written.err
        assert written.err.startswith("rollcall: ")
        assert written.err.count("\n") == 1
        assert written.out == ""

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--out", "x"),
            ("--members", "a"),
            ("--members", "a", "--from-cluster", "b", "--out", "x"),
            ("--members", "a", "--out", "x", "--gap", "fast"),
            ("--members", "a", "--out", "x", "--timeout", "0"),
            ("--members", "a", "--out", "x", "--retries", "-1"),
            ("--members", "a", "--out", "x", "--keep", "0"),
            ("--members", "a", "--out", "x", "--date", "2026-02-30"),
        ],
    )
    def test_of_the_form_are_argparses(self, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            main(["dump", *arguments])
        assert raised.value.code == 2
        written = capsys.readouterr().err
        assert written.startswith("rollcall dump: ")
        assert written.endswith("See `rollcall dump --help`\n")

    def test_no_list_of_members(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        address = refusing_address()
        arguments = ["dump", "--from-cluster", address, "--out", str(tmp_path), "--retries", "0"]
        assert main(arguments) == 2
        assert f"no member list of {address}: /v1/core/cluster/nodes: connection refused" in capsys.readouterr().err

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "out").write_text("a file")
        assert dump(tmp_path / "out", refusing_address()) == 2
        written = capsys.readouterr().err
        assert "cannot be written" in written
        assert written.count("\n") == 1

    def test_a_disk_that_fills_up_is_no_absent_member(
        self, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("app.tools.audit.format.columns.ColumnFile.write", fail)
        assert dump(tmp_path, serve(member()), serve(member("10.0.0.2:8848"))) == 2
        assert "cannot be written: No space left on device" in capsys.readouterr().err
        assert not list(tmp_path.rglob("*manifest.json"))
        assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("signal", ["terminate", "send_signal"])
def test_an_ended_dump_leaves_no_manifest(tmp_path: Path, serve: Serve, signal: str) -> None:
    body = member(instances=10)(Received("GET", "/", {}, b"", 0)).body
    server = serve(lambda _: Given(200, body, dict(NDJSON), drip_s=0.02))
    command = Path(sys.executable).with_name("rollcall")
    process = subprocess.Popen(
        [command, "dump", "--members", server.address, "--out", tmp_path, "--date", NIGHT],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: server.received)
        if signal == "terminate":
            process.terminate()
        else:
            process.send_signal(2)
        _, errors = process.communicate(timeout=60.0)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == (-15 if signal == "terminate" else 2)
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("*manifest.json"))


def test_the_command_loads_nothing_that_it_does_not_need() -> None:
    costly = ("requests", "fsspec", "tqdm", "flask", "pyspark", "orjson", "rich", "yaml", "argcomplete", "tomllib")
    code = (
        "import sys; from app.tools.cli import make_parser; make_parser()\n"
        f"print(*[name for name in {costly!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
