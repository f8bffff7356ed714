"""The audit trail: what a line says, whose doing it is, and what it never says."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.metrics.audit_lines import hide_secrets
from app.metrics.audit_trail import Actor, AuditTrail, acting_as
from app.naming.model.model import Instance
from app.naming.registry.operations import RegisterInstance
from tests.support.fake_node import make_settings

ALICE = Actor("10.0.0.9", "alice", "curl/8", "10.0.0.2")


def lines_of(tmp_path: Path, *calls: Any, **settings: bool) -> list[dict[str, Any]]:
    """What calls of ``write`` leave in the file."""
    file = tmp_path / "audit.log"
    told = replace(make_settings().told, audit_file=file, **settings)
    trail = AuditTrail(told, "10.0.0.1:8848", lambda: 1_700_000_000_123)
    for call in calls:
        call(trail)
    assert trail.stop(10)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_line_says_who_from_where_what_and_both_values(tmp_path: Path) -> None:
    (line,) = lines_of(
        tmp_path,
        lambda trail: trail.write("namespace.update", "blue", before={"name": "a"}, after={"name": "b"}, actor=ALICE),
    )
    assert line == {
        "time": "2023-11-14T22:13:20.123Z",
        "node": "10.0.0.1:8848",
        "user": "alice",
        "from": "10.0.0.9",
        "via": "10.0.0.2",
        "agent": "curl/8",
        "what": "namespace.update",
        "key": "blue",
        "before": {"name": "a"},
        "after": {"name": "b"},
    }


def test_of_two_objects_the_fields_that_differ_are_written(tmp_path: Path) -> None:
    before, after = {"same": 1, "other": 2, "gone": 3}, {"same": 1, "other": 4, "came": 5}
    (line,) = lines_of(tmp_path, lambda trail: trail.write("x", "k", before=before, after=after))
    assert (line["before"], line["after"]) == ({"other": 2, "gone": 3}, {"other": 4, "came": 5})


def test_an_instance_is_written_by_its_fields(tmp_path: Path) -> None:
    command = RegisterInstance("g@@s", "1.2.3.4", 80, metadata={"password": "p", "zone": "a"})
    (line,) = lines_of(tmp_path, lambda trail: trail.write("instance.register", "k", after=command))
    assert line["after"]["ip"] == "1.2.3.4"
    assert line["after"]["metadata"] == {"password": "***", "zone": "a"}


@pytest.mark.parametrize(
    "metadata", [{"zone": "b"}, {"my-Token": "t"}, {"zone": "\x7f\u2028"}, {"z": "v" * 20_000}, None]
)
@pytest.mark.parametrize("verb", ["register", "remove"])
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_the_line_of_an_instance_is_the_same_however_soon_it_is_made(
    tmp_path: Path, metadata: dict[str, str] | None, verb: str, weight: float
) -> None:
    before = Instance("1.2.3.4", 80, service_name="g@@s", weight=weight, metadata={"zone": "a"})
    after = None if verb == "remove" else RegisterInstance("g@@s", "1.2.3.4", 80, metadata=metadata)
    soon, later = lines_of(
        tmp_path,
        lambda trail: trail.write_instance(verb, ("public", "g@@s"), "k", before, after, ALICE),
        lambda trail: trail.write(f"instance.{verb}", "public/g@@s/k", before=before, after=after, actor=ALICE),
    )
    assert soon == later
    assert list(soon) == list(later)
    assert soon["before"]["metadata"] == {"zone": "a"}
    assert ("weight" in soon["before"]) is (verb == "remove" or weight != 1.0)


@pytest.mark.parametrize("name", ["zone", "my-Token"])
def test_a_long_list_shows_addresses_and_a_short_one_fields_without_secrets(tmp_path: Path, name: str) -> None:
    batch = [RegisterInstance("g@@s", "1.2.3.4", port, metadata={name: "v" * 300}) for port in range(100)]
    long, short = lines_of(
        tmp_path,
        lambda trail: trail.write("instance.register", "k", after=batch),
        lambda trail: trail.write("instance.register", "k", after=batch[:2]),
    )
    assert long["after"] == [f"1.2.3.4:{port}" for port in range(100)]
    assert [one["port"] for one in short["after"]] == [0, 1]
    assert [one["metadata"] for one in short["after"]] == [{name: "v" * 300 if name == "zone" else "***"}] * 2


@pytest.mark.parametrize("was", [{"zone": "a"}, {"my-Token": "t"}, {}])
@pytest.mark.parametrize("now", [{"zone": "b"}, {"password": "p"}, {"zone": "\x7f\u2028"}, {"z": "v" * 20_000}, None])
def test_where_the_metadata_alone_changed_the_line_tells_of_them_alone(
    tmp_path: Path, was: dict[str, str], now: dict[str, str] | None
) -> None:
    before = Instance("1.2.3.4", 80, service_name="g@@s", app="DEFAULT", metadata=was)
    after = RegisterInstance("g@@s", "1.2.3.4", 80, metadata=now or {})
    alone, whole = lines_of(
        tmp_path,
        lambda trail: trail.write(
            "instance.register", "public/g@@s/k", before={"metadata": was}, after={"metadata": now or {}}, actor=ALICE
        ),
        lambda trail: trail.write_instance("register", ("public", "g@@s"), "k", before, after, ALICE),
    )
    if was != (now or {}):
        assert alone == whole
        assert list(alone) == list(whole)


def test_who_acts_is_the_one_of_the_thread_and_else_the_node(tmp_path: Path) -> None:
    def as_alice(trail: AuditTrail) -> None:
        with acting_as(ALICE):
            trail.on_record("rollcall.namespace.blue", None, {"name": "b"})

    first, second = lines_of(
        tmp_path, as_alice, lambda trail: trail.on_record("rollcall.namespace.blue", {"a": 1}, None)
    )
    assert (first["user"], first["what"], first["key"]) == ("alice", "namespace.create", "blue")
    assert (second["user"], second["what"], second["before"]) == ("node", "namespace.remove", {"a": 1})


@pytest.mark.parametrize(
    "name", ["password", "newPassword", "accessToken", "pwd", "passwordHash", "Authorization", "salt"]
)
def test_secrets_are_hidden_at_any_depth(name: str) -> None:
    assert hide_secrets({"a": [{name: "s", "b": 1}]}) == {"a": [{name: "***", "b": 1}]}


@pytest.mark.parametrize(
    "value",
    [
        {"clusters": {"c": {"pwd": "p"}}},
        {"pwd": "p"},
        {"metadata": {"pwd": "p"}},
        [{"pwd": "p"}],
        {"a": [{"pwd": "p"}]},
    ],
)
def test_a_line_tells_no_secret(tmp_path: Path, value: object) -> None:
    (line,) = lines_of(tmp_path, lambda trail: trail.write("x", "k", before={"b": 1}, after=value))
    assert json.dumps(line["after"]) == json.dumps(value).replace('"p"', '"***"')


def test_records_of_kinds_that_are_not_known_here_have_a_line(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, lambda trail: trail.on_record("rollcall.user.bob", None, {"hash": "h", "name": "bob"}))
    assert (line["what"], line["key"], line["after"]) == ("user.create", "bob", {"hash": "***", "name": "bob"})


def test_hostile_values_stay_in_their_line(tmp_path: Path) -> None:
    hostile = 'a"\n{"what":"forged"}\u2028\ud800'
    lines = lines_of(tmp_path, lambda trail: trail.write("x", hostile, after={hostile: hostile, "big": 2**70}))
    assert len(lines) == 1
    assert lines[0]["what"] == "x"
    assert lines[0]["key"].startswith('a"\n')


def test_large_values_are_left_out(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, lambda trail: trail.write("x", "k", after={"a": "v" * 20_000}))
    assert line["after"].endswith("bytes, left out")


def test_it_can_be_switched_off_as_a_whole_or_for_instances(tmp_path: Path) -> None:
    def write(trail: AuditTrail) -> None:
        trail.on_record("rollcall.instance.public##g@@s##1.2.3.4:80:DEFAULT", None, {"ip": "1.2.3.4"})
        trail.on_record("rollcall.namespace.blue", None, {})
        assert not trail.covers_instances

    assert [line["what"] for line in lines_of(tmp_path, write, audit_instances=False)] == ["namespace.create"]
    assert not lines_of(tmp_path / "off", write, audit=False)
