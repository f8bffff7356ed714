"""The difference of two members: what counts as one, in what memory, of which round, and how it is told."""

import json
import random
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from app.rows.rows import ClientKind, Layer, instance_row, service_row
from app.tools.audit.compare import command as compare_command
from app.tools.audit.compare.compare import Difference, Side, compare, lasting
from app.tools.audit.compare.services import Facts, scope_of
from app.tools.audit.compare.table import CELL_WIDTH_MAX, TABLE_ROWS_MAX, Tally, aligned, json_line, table
from app.tools.audit.format.findings import FindingClass
from app.tools.audit.format.manifest import MANIFEST_NAME, Seen
from app.tools.audit.format.part_format import PartFormat
from scripts.synthetic.dump import SyntheticDump, make_dump
from tests.support.dumps import write_dump
from tests.support.plain_check import planted
from tests.support.processes import COMMAND, clean_environ

A, B = "10.0.0.1:8848", "10.0.0.2:8848"
DATE = "2026-11-21"
Run = Callable[..., tuple[int, list[str], str]]


def row(service: str = "DEFAULT_GROUP@@orders", ip: str = "10.1.0.1", **changes: Any) -> dict[str, Any]:
    usual = instance_row(
        namespace="public",
        service=service,
        cluster="DEFAULT",
        ip=ip,
        port=8080,
        ephemeral=True,
        healthy=True,
        enabled=True,
        weight=1.0,
        metadata={"zone": "a"},
        version="1.7.x",
        owner=A,
        client=ClientKind.HTTP,
    )
    return usual | changes


def differences(a: Iterable[dict[str, Any]], b: Iterable[dict[str, Any]], **options: Any) -> list[Difference]:
    held_a, held_b = list(a), list(b)
    return list(compare(Side(A, lambda: held_a), Side(B, lambda: held_b), **options))


def told(found: Iterable[Difference]) -> list[tuple[str, str, str]]:
    return [(one.finding_class.value, one.a, one.b) for one in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"healthy": False}, ("HEALTH", "true", "false")),
        ({"enabled": False}, ("ENABLED", "true", "false")),
        ({"weight": 2.5}, ("WEIGHT", "1.0", "2.5")),
        ({"metadata": {"zone": "b", "x": "1"}}, ("METADATA", '{"zone":"a"}', '{"x":"1","zone":"b"}')),
        ({"metadata": {}}, ("METADATA", '{"zone":"a"}', "{}")),
    ],
)
def test_a_value_that_departs_is_told_with_its_versions(changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    [one] = differences([row()], [row(**changes, version="1.6.x")])
    assert told([one]) == [expected]
    assert (one.namespace, one.service, one.cluster, one.ip, one.port) == (
        "public",
        "DEFAULT_GROUP@@orders",
        "DEFAULT",
        "10.1.0.1",
        8080,
    )
    assert (one.a_version, one.b_version, one.lasting) == ("1.7.x", "1.6.x", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "9.9.y"},
        {"beat_age_ms": 4_000},
        {"client": "grpc"},
        {"weight": 1},
        {"delete_timeout_ms": 30_000},
    ],
)
def test_what_members_may_tell_differently_is_no_difference(changes: dict[str, Any]) -> None:
    assert not differences([row()], [row(**changes)])


def test_neither_the_order_of_rows_nor_that_of_metadata_matters() -> None:
    rows = [row(f"DEFAULT_GROUP@@s{number}", f"10.2.0.{number}", metadata={"a": "1", "b": "2"}) for number in range(50)]
    turned = [one | {"metadata": {"b": "2", "a": "1"}} for one in rows]
    random.Random(1).shuffle(turned)
    assert not differences(rows, turned)


def test_who_lacks_what_the_other_owns_misses_it_and_who_has_what_the_owner_lacks_has_a_ghost() -> None:
    assert told(differences([row(owner=A)], [])) == [("MISSING", 'healthy weight 1.0 {"zone":"a"}', "absent")]
    assert told(differences([row(owner=B)], [])) == [("EXTRA", 'healthy weight 1.0 {"zone":"a"}', "absent")]
    assert told(differences([], [row(owner=A, metadata={})])) == [("EXTRA", "absent", "healthy weight 1.0")]
    assert told(differences([], [row(owner=None, healthy=False)]))[0][0] == "MISSING"


def test_an_instance_is_its_whole_key() -> None:
    for changes in ({"ip": "10.1.0.2"}, {"port": 1}, {"cluster": "zone-b"}, {"ephemeral": False}):
        assert len(differences([row()], [row(**changes)])) == 2, changes


def test_owners_of_a_service_are_compared_where_both_tell_one() -> None:
    def service(owner: str | None) -> dict[str, Any]:
        return service_row("public", "DEFAULT_GROUP@@orders", "1.2.x", owner)

    assert told(differences([service(A)], [service(B)])) == [("OWNER", A, B)]
    assert not differences([service(A)], [service(None)])
    assert told(differences([service(A)], [])) == [("SERVICE", "there, without instances", "absent")]
    assert not differences([service(A), row()], [row()]), "a service with instances has findings of these instead"


def of_service(version: str = "1.2.x", **settings: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"metadata": {"a": "1"}, "protect_threshold": 0.0, "selector": "{}", "clusters": "{}"}
    return service_row("public", "DEFAULT_GROUP@@orders", version, A) | usual | settings


def record(value: str = "{}", name: str = "switches", **more: Any) -> dict[str, Any]:
    return {"kind": "record", "namespace": "", "service": "", "name": name, "value": value, "version": "1.1.x"} | more


def client(revision: int = 4, owner: str = A, name: str = "1_10.0.0.9_5") -> dict[str, Any]:
    return {"kind": "client", "namespace": "", "service": "", "name": name, "revision": revision, "owner": owner}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([of_service(), row()], [of_service(protect_threshold=0.5), row()], ("SETTINGS", "", "protect_threshold")),
        ([of_service()], [of_service(metadata={"a": "2"})], ("SETTINGS", "", "metadata")),
        ([of_service(), row()], [of_service("1.1.x"), row()], ("BEHIND", "", "1.2.x")),
        ([of_service("2.1.x")], [of_service("1.9.x")], ("BEHIND", "", "2.1.x")),
        ([of_service()], [], ("SERVICE", "", "there")),
        ([record()], [record('{"a":1}')], ("RECORD", "switches", "{}")),
        ([], [record(name="namespace dev")], ("RECORD", "namespace dev", "absent")),
        ([client()], [client(3)], ("CLIENT", "1_10.0.0.9_5", "revision 4 of")),
        ([client()], [client(owner=B)], ("CLIENT", "1_10.0.0.9_5", "revision 4 of")),
        ([client()], [], ("CLIENT", "1_10.0.0.9_5", "revision 4 of")),
    ],
)
def test_services_records_and_clients_are_compared(
    a: list[dict[str, Any]], b: list[dict[str, Any]], expected: tuple[str, ...]
) -> None:
    [one] = differences(a, b)
    assert (one.finding_class.value, one.name, one.ip) == (*expected[:2], "")
    assert one.a.startswith(expected[2])
    [other] = differences(b, a)
    assert (other.a, other.b) == (one.b, one.a)
    assert not differences(a, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([of_service("1.2.x")], [of_service("1.2.y")]),
        ([of_service("1.2.x", metadata=None)], [of_service("1.2.x", metadata={})]),
        ([of_service()], [{**of_service(), "protect_threshold": None}]),
    ],
    ids=["the-writer-orders-nothing", "no-metadata", "an-earlier-release-gives-no-settings"],
)
def test_healthy_services_do_not_differ(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    assert not differences(a, b)


def test_what_is_not_compared_is_said() -> None:
    ours, nacos = Facts("rollcall", frozenset({"record", "client"})), Facts("nacos-1", frozenset({"record"}))
    assert scope_of(ours, ours, is_filtered=False).left_out == ()
    assert [text.partition(":")[0] for text in scope_of(ours, nacos, is_filtered=False).left_out] == [
        "SETTINGS, RECORD and CLIENT",
        "BEHIND",
    ]
    assert "RECORD, CLIENT and MEMBERSHIP" in scope_of(ours, ours, is_filtered=True).left_out[0]
    assert "CLIENT: one" in scope_of(ours, Facts("rollcall", frozenset({"record"})), is_filtered=False).left_out[0]


def test_lists_of_members_are_compared() -> None:
    def side(address: str, state: str) -> Side:
        return Side(address, list, Facts("rollcall", listed=(Seen(A, "UP"), Seen(B, state))))

    [one] = compare(side(A, "UP"), side(B, "DOWN"))
    assert (one.finding_class, one.a, one.b) == ("MEMBERSHIP", f"{B} UP", f"{B} DOWN")
    assert not list(compare(side(A, "UP"), side(B, "DOWN"), is_filtered=True))


def test_each_class_is_shown_of_a_dump(tmp_path: Path, run: Run) -> None:
    pytest.importorskip("pyarrow")
    right = [record(), client(), of_service(), row()]
    wrong = [record('{"a":1}'), client(3), of_service("1.1.x", protect_threshold=0.5), row()]
    write_dump(tmp_path, {A: right, B: wrong}, part_format=PartFormat.PARQUET)
    code, lines, said = run(A, B, "--dumps", tmp_path, "--json")
    assert (code, said) == (1, "")
    found = {one["finding_class"]: one for one in map(json.loads, lines)}
    assert set(found) == {"RECORD", "CLIENT", "SETTINGS", "BEHIND"}
    assert (found["RECORD"]["name"], found["RECORD"]["lasting"]) == ("switches", True)
    code, lines, said = run(A, B, "--dumps", tmp_path, "--json", "--service", "orders")
    assert (code, len(lines), "not compared: RECORD, CLIENT and MEMBERSHIP" in said) == (1, 2, True)


def test_a_dump_in_parquet_needs_a_package(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")  # to write it
    write_dump(tmp_path / "dumps", {A: [row()], B: [row()]}, part_format=PartFormat.PARQUET)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "pyarrow").with_suffix(".py").write_text(
        "raise ModuleNotFoundError('hidden', name='pyarrow')\n"
    )
    command = [COMMAND, "compare", A, B, "--dumps", str(tmp_path / "dumps")]
    environ = clean_environ() | {"PYTHONPATH": str(tmp_path / "hidden")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "rollcall compare: the dump is in Parquet, and this Python has no package pyarrow: "
        "pip install 'rollcall-registry[audit]'\n"
    )


def test_twice_in_one_member_is_a_difference() -> None:
    assert told(differences([row(), row()], [row()])) == [("DUPLICATE", "2 times", "once")]
    assert not differences([row(), row()], [row(), row()])


def test_what_only_one_member_holds_otherwise_inside_is_drift() -> None:
    view = row(layer=Layer.VIEW.value)
    datum = row(layer=Layer.DATUM.value, weight=9.0)
    text = 'datum: weight 9.0 {"zone":"a"}, view: weight 1.0 {"zone":"a"}'
    assert told(differences([datum, view], [row()])) == [("DRIFT", text, "")]
    assert told(differences([row()], [view])) == [("DRIFT", "", 'datum: absent, view: weight 1.0 {"zone":"a"}')]
    stored = row(layer=Layer.DATUM.value, healthy=False)
    assert not differences([stored, view], [row()]), "a datum's health is that of its last change"


def test_differences_come_by_namespace_service_and_instance() -> None:
    rows = [row(f"G@@s{number:02d}", f"10.1.0.{ip}") for number in range(20) for ip in (1, 2)]
    random.Random(2).shuffle(rows)
    found = differences(rows, [])
    assert [one.key for one in found] == sorted(one.key for one in found)
    assert len(found) == 40


def test_memory_is_bounded_by_reading_again() -> None:
    rows = [row(f"G@@s{number:02d}", f"10.1.0.{ip}") for number in range(20) for ip in range(1, 6)]
    reads = Counter[str]()

    def side(address: str, held: list[dict[str, Any]]) -> Side:
        def read() -> Iterable[dict[str, Any]]:
            reads[address] += 1
            return held

        return Side(address, read)

    whole = list(compare(side(A, rows), side(B, [])))
    assert reads == {A: 2, B: 2}
    reads.clear()
    assert list(compare(side(A, rows), side(B, []), slice_rows_max=25)) == whole
    assert reads == {A: 5, B: 5}, "four slices of five services, and the first look"
    assert len(list(compare(side(A, rows), side(B, []), slice_rows_max=1))) == 100, "a service alone is never cut"


def test_a_difference_lasts_when_both_rounds_tell_the_same() -> None:
    def found(*rows: dict[str, Any]) -> list[Difference]:
        return differences([row(), row(ip="10.1.0.2"), row(ip="10.1.0.3")], rows)

    kept = row(ip="10.1.0.2"), row(ip="10.1.0.3")
    flipped = found(row(healthy=False), *kept)
    same = list(lasting(flipped, flipped))
    assert [one.lasting for one in same] == [True]
    assert [one.lasting for one in lasting(flipped, [])] == [False]
    assert [one.lasting for one in lasting([], flipped)] == [False]
    newer = found(row(healthy=False, version="1.9.x"), *kept)
    [one] = lasting(flipped, newer)
    assert (one.lasting, one.b_version) == (False, "1.9.x"), "the later round is told"
    other = found(row(), row(ip="10.1.0.2", weight=3.0), row(ip="10.1.0.3"))
    assert [(one.ip, one.lasting) for one in lasting(flipped, other)] == [("10.1.0.1", False), ("10.1.0.2", False)]


# --- as text -------------------------------------------------------------------------------------


def test_a_table_has_aligned_columns_and_none_without_content() -> None:
    found = differences(
        [row(version=None), row(ip="fe80::7", version=None)], [row(weight=12.25, version=None, metadata={"zone": "京"})]
    )
    head, *lines = table(found, A, B)
    assert head.split() == ["CLASS", "SERVICE", "INSTANCE", A, B]
    starts = [head.index(name) for name in ("SERVICE", "INSTANCE", A, B)]
    assert len(lines) == 3
    for line in lines:
        assert all(line[start - 2 : start] == "  " and line[start] != " " for start in starts[:3]), line
    assert "[fe80::7]:8080#DEFAULT" in lines[2]


def test_a_cell_shows_no_control_characters_and_is_cut() -> None:
    [one] = differences([row(metadata={"x": "\x1b[31m" + "y" * 500})], [row(metadata={})])
    _, line = table([one], A, B)
    assert "\x1b" not in line
    assert f"{'y' * 5}..." in line
    assert len(line) < 5 * CELL_WIDTH_MAX


def test_a_long_table_tells_how_much_more_there_is() -> None:
    found = differences([row(f"G@@s{number}") for number in range(TABLE_ROWS_MAX + 5)], [])
    lines = list(table(found, A, B))
    assert (len(lines), lines[-1]) == (TABLE_ROWS_MAX + 2, "... and 5 more; --json shows them all")


def test_the_last_line_counts() -> None:
    tally = Tally()
    assert tally.text() == "no difference"
    found = differences([row(), row("G@@other")], [row(weight=2.0, healthy=False)])
    list(tally.count(lasting(found, found[:1])))
    assert tally.text() == (
        "3 differences in 2 services: HEALTH 1, MISSING 1, WEIGHT 1; 2 of them not the same in both rounds"
    )


def test_a_line_of_json_has_it_all() -> None:
    [one] = differences([row()], [row(weight=2.0, version=None)])
    assert json.loads(json_line(one, A, B)) == {
        "finding_class": "WEIGHT",
        "lasting": None,
        "namespace": "public",
        "service": "DEFAULT_GROUP@@orders",
        "cluster": "DEFAULT",
        "ip": "10.1.0.1",
        "port": 8080,
        "ephemeral": True,
        "a": {"member": A, "value": "1.0", "version": "1.7.x"},
        "b": {"member": B, "value": "2.0", "version": None},
    }


# --- the command, on dumps -----------------------------------------------------------------------


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command: exit code, lines of its output, and what it said beside."""

    def call(*arguments: object) -> tuple[int, list[str], str]:
        parser = ArgumentParser()
        compare_command.add_to(parser.add_subparsers())
        options = parser.parse_args(["compare", *map(str, arguments)])
        code = options.run(options)
        output = capsys.readouterr()
        return code, output.out.splitlines(), output.err

    return call


def dumped(folder: Path, **options: Any) -> Path:
    make_dump(SyntheticDump(out=str(folder), **{"instances": 1_000, **options}))
    return folder


def test_members_that_agree_are_the_same(tmp_path: Path, run: Run) -> None:
    assert run(A, B, "--dumps", dumped(tmp_path)) == (0, ["no difference"], "")


def test_what_was_planted_between_two_members_is_found(tmp_path: Path, run: Run) -> None:
    names = ("MISSING", "EXTRA", "HEALTH", "WEIGHT", "METADATA", "ENABLED", "DRIFT")
    dumped(tmp_path, members=2, faults={**dict.fromkeys(names, 5), "LATE": 12}, rows_per_part=100)
    code, lines, _ = run(A, B, "--dumps", tmp_path, "--json")
    fields = ("finding_class", "lasting", "namespace", "service", "cluster", "ip", "port", "ephemeral")
    found = Counter(tuple(json.loads(line)[name] for name in fields) for line in lines)
    assert (code, found) == (1, Counter(one[:-2] for one in planted(tmp_path / f"planted-{DATE}.jsonl").elements()))


def test_what_does_not_last_can_be_left_out(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=2, faults={"WEIGHT": 2, "LATE": 6}, rows_per_part=100)
    code, lines, _ = run(A, B, "--dumps", tmp_path, "--json", "--lasting")
    assert (code, [json.loads(line)["finding_class"] for line in lines]) == (1, ["WEIGHT", "WEIGHT"])


def test_without_anything_that_lasts_the_members_are_the_same_for_scripts(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=2, faults={"LATE": 6})
    assert run(A, B, "--dumps", tmp_path)[0] == 1
    assert run(A, B, "--dumps", tmp_path, "--lasting") == (0, ["no difference"], "")


def test_one_service_can_be_asked_for(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=2, seed=3, faults={"WEIGHT": 8, "HEALTH": 8})
    _, lines, _ = run(A, B, "--dumps", tmp_path, "--json")
    services = {(one["namespace"], one["service"]) for one in map(json.loads, lines)}
    for namespace, service in services:
        code, lines, _ = run(A, B, "--dumps", tmp_path, "--json", "--service", service, "--namespace", namespace)
        assert (code, len(lines), json.loads(lines[0])["service"]) == (1, 1, service)
    short = next(service for _, service in services if service.startswith("DEFAULT_GROUP@@")).partition("@@")[2]
    assert run(A, B, "--dumps", tmp_path, "--service", short)[0] == 1
    code, _, said = run(A, B, "--dumps", tmp_path, "--service", "nobody")
    assert (code, "neither member has a service DEFAULT_GROUP@@nobody" in said) == (2, True)


def test_what_cannot_be_compared_is_told_with_a_reason(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=4, faults={"ABSENT_MEMBER": 1, "CORRUPT_FILE": 1})
    for others, reason in (
        ((B, "--date", "2020-01-01"), "no dump of the night 2020-01-01"),
        (("10.0.0.9",), "10.0.0.9:8848 is not in the dump"),
        (("10.0.0.4",), "10.0.0.4:8848 was not dumped at 20261121T031515.000Z: connection refused"),
        (("10.0.0.3",), "is not the file in its manifest"),
        (("10.0.0.1",), "two are needed"),
        (("not an address",), "is not a member address"),
    ):
        code, lines, said = run(A, *others, "--dumps", tmp_path)
        assert (code, lines, reason in said) == (2, [], True), said
    code, _, said = run(A, B, "--dumps", tmp_path / "none")
    assert (code, "no dump under" in said) == (2, True)


def test_lines_that_are_no_rows_are_told_and_not_taken_for_agreement(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=2, seed=2, faults={"CORRUPT": 8})
    code, lines, said = run(A, B, "--dumps", tmp_path)
    assert (code, lines) == (2, ["no difference"])
    assert said.count("left out 1 lines that are not rows\n") == 5
    assert "the same of 1 more files" in said


def test_a_night_with_another_dump_cut_off_is_still_compared(tmp_path: Path, run: Run) -> None:
    dumped(tmp_path, members=2)
    later = tmp_path / f"dump_date={DATE}" / "taken_at=20261121T050000.000Z"
    later.mkdir()
    code, _, said = run(A, B, "--dumps", tmp_path)
    assert (code, "taken_at=20261121T050000.000Z has no manifest" in said) == (0, True)
    for manifest in tmp_path.rglob(MANIFEST_NAME):
        manifest.unlink()
    assert run(A, B, "--dumps", tmp_path)[0] == 2


def test_classes_are_those_of_the_check() -> None:
    found = differences([row(), row()], [row(weight=2.0, healthy=False)])
    assert all(isinstance(one.finding_class, FindingClass) for one in found)


def test_the_command_needs_no_spark(tmp_path: Path) -> None:
    dumped(tmp_path, members=2)
    code = (
        "import sys; from app.tools.cli import main; code = main(sys.argv[1:]); "
        "print(*[name for name in sys.modules if name.startswith(('pyspark', 'py4j', 'matplotlib'))]); sys.exit(code)"
    )
    command = [sys.executable, "-c", code, "compare", A, B, "--dumps", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "no difference\n\n", "")


def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    dumped(tmp_path, members=2, instances=4_000, faults={"METADATA": 900})
    command = [COMMAND, "compare", A, B, "--dumps", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == ""


def test_a_narrow_terminal_gets_a_block_for_each_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = list(aligned(["CLASS", "SERVICE"], [["WEIGHT", "s" * 50], ["MISSING", "t" * 60]], "  "))
    assert lines[0].split() == ["CLASS", "SERVICE"], "which fits"
    lines = list(aligned(["CLASS", "EMPTY", "SERVICE"], [["A" * 30, "", "s" * 60], ["B", "", "t"]]))
    assert lines == [f"CLASS    {'A' * 30}", f"SERVICE  {'s' * 60}", "", "CLASS    B", "SERVICE  t"]
