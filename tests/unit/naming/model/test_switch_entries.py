"""Each entry of the switches at the edge of what it allows, and what a batch may hold."""

from typing import Any

import pytest

from app.naming.model.keys import INT_MAX
from app.naming.model.nacos_errors import InvalidParam
from app.naming.model.switches import (
    CHECK_MS_MAX,
    ENTRIES_MAX,
    LONG_BOUND,
    CheckParams,
    SwitchDomain,
    from_json,
    update,
)

BASE = SwitchDomain()
MOST_WEIGHTS = {str(number): 1 for number in range(ENTRIES_MAX)}
CHANGED = [
    ("distroThreshold", "0.35", {"distro_threshold": 0.35}),
    ("clientBeatInterval", "1", {"client_beat_interval": 1}),
    ("pushCacheMillis", "10000", {"default_push_cache_millis": 10_000}),
    ("defaultCacheMillis", "1000", {"default_cache_millis": 1_000}),
    ("masters", "a:1,b:1", {"masters": ("a:1", "b:1")}),
    ("distro", "TRUE", {"distro_enabled": True}),
    ("distro", "yes", {"distro_enabled": False}),
    ("check", "false", {"health_check_enabled": False}),
    ("pushEnabled", "false", {"push_enabled": False}),
    ("serviceStatusSynchronizationPeriodMillis", "5000", {"service_status_synchronization_period_millis": 5_000}),
    ("serverStatusSynchronizationPeriodMillis", "1000", {"server_status_synchronization_period_millis": 1_000}),
    ("healthCheckTimes", "1", {"check_times": 1}),
    ("healthCheckTimes", str(INT_MAX), {"check_times": INT_MAX}),
    ("disableAddIP", "true", {"disable_add_i_p": True}),
    ("sendBeatOnly", "true", {"send_beat_only": True}),
    ("overriddenServerStatus", "READ_ONLY", {"overridden_server_status": "READ_ONLY"}),
    ("overriddenServerStatus", "null", {"overridden_server_status": ""}),
    ("overriddenServerStatus", "", {"overridden_server_status": ""}),
    ("defaultInstanceEphemeral", "false", {"default_instance_ephemeral": False}),
    ("distroServerExpiredMillis", "1", {"distro_server_expired_millis": 1}),
    ("distroServerExpiredMillis", "+9" + "9" * 17, {"distro_server_expired_millis": LONG_BOUND - 1}),
    *[("lightBeatEnabled", text, {"light_beat_enabled": True}) for text in ("true", "Yes", "ON", "y", "T")],
    ("lightBeatEnabled", "1", {"light_beat_enabled": False}),
    ("autoChangeHealthCheckEnabled", "no", {"auto_change_health_check_enabled": False}),
    ("pushVersion", "java:1.22.333", {"push_java_version": "1.22.333"}),
    ("pushVersion", "python:1.0.0", {"push_python_version": "1.0.0"}),
    ("pushVersion", "c:1.0.0", {"push_c_version": "1.0.0"}),
    ("pushVersion", "go:1.0.0", {"push_go_version": "1.0.0"}),
    ("limitedUrlMap", "", {}),
    ("limitedUrlMap", "/a:200,/b:599", {"limited_url_map": {"/a": 200, "/b": 599}}),
]


@pytest.mark.parametrize(("entry", "value", "changed"), CHANGED, ids=lambda value: str(value)[:40])
def test_an_entry_changes_its_switch_alone(entry: str, value: str, changed: dict[str, Any]) -> None:
    fields = {name: getattr(BASE, name) for name in SwitchDomain.__dataclass_fields__}
    assert update(BASE, entry, value) == SwitchDomain(**fields | changed)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("distroThreshold", "0"),
        ("distroThreshold", "-1"),
        ("distroThreshold", "1_0"),
        ("distroThreshold", "nan"),
        ("distroThreshold", "1e99"),
        ("clientBeatInterval", "0"),
        ("clientBeatInterval", "1" + "0" * 18),
        ("clientBeatInterval", "1.0"),
        ("clientBeatInterval", ""),
        ("pushCacheMillis", "9999"),
        ("defaultCacheMillis", "999"),
        ("serviceStatusSynchronizationPeriodMillis", "4999"),
        ("serverStatusSynchronizationPeriodMillis", "999"),
        ("healthCheckTimes", "0"),
        ("healthCheckTimes", str(INT_MAX + 1)),
        ("overriddenServerStatus", "up"),
        ("pushVersion", "java"),
        ("pushVersion", "java:1.2"),
        ("pushVersion", "java:1.2.3.4"),
        ("pushVersion", "rust:1.2.3"),
        ("pushVersion", ":1.2.3"),
        ("limitedUrlMap", "/a"),
        ("limitedUrlMap", "/a:200:1"),
        ("limitedUrlMap", ":200"),
        ("limitedUrlMap", "/a:199"),
        ("limitedUrlMap", "/a:600"),
        ("limitedUrlMap", "/a:x"),
    ],
)
def test_what_an_entry_does_not_allow(entry: str, value: str) -> None:
    with pytest.raises(InvalidParam):
        update(BASE, entry, value)


def test_the_version_of_a_push_is_what_follows_the_first_colon() -> None:
    with pytest.raises(InvalidParam, match="illegal version"):
        update(BASE, "pushVersion", "java:x:1.2.3")


def test_lists_have_a_bound() -> None:
    most = ",".join(f"/{number}:200" for number in range(ENTRIES_MAX))
    assert len(update(BASE, "limitedUrlMap", most).limited_url_map) == ENTRIES_MAX
    masters = ",".join(["a"] * ENTRIES_MAX)
    assert len(update(BASE, "masters", masters).masters or ()) == ENTRIES_MAX
    for entry, value in (("limitedUrlMap", most + ",/x:200"), ("masters", masters + ",a")):
        with pytest.raises(InvalidParam):
            update(BASE, entry, value)


@pytest.mark.parametrize(
    ("name", "value", "field", "taken"),
    [
        ("masters", ["a"], "masters", ("a",)),
        ("masters", ["a"] * ENTRIES_MAX, "masters", ("a",) * ENTRIES_MAX),
        ("masters", None, "masters", None),
        ("incrementalList", None, "incremental_list", ()),
        ("incrementalList", ["x"], "incremental_list", ("x",)),
        ("adWeightMap", None, "ad_weight_map", {}),
        ("adWeightMap", {"a": LONG_BOUND - 1}, "ad_weight_map", {"a": LONG_BOUND - 1}),
        ("adWeightMap", MOST_WEIGHTS, "ad_weight_map", MOST_WEIGHTS),
        ("checkTimes", 1, "check_times", 1),
        ("distroThreshold", 2, "distro_threshold", 2.0),
        ("distroThreshold", 0.25, "distro_threshold", 0.25),
        ("pushEnabled", False, "push_enabled", False),
        ("pushGoVersion", "any", "push_go_version", "any"),
        ("overriddenServerStatus", None, "overridden_server_status", None),
        ("overriddenServerStatus", "UP", "overridden_server_status", "UP"),
        ("limitedUrlMap", {"/a": 200, "/b": 599}, "limited_url_map", {"/a": 200, "/b": 599}),
        (
            "httpHealthParams",
            {"max": 3_000, "min": 500, "factor": 0},
            "http_health_params",
            CheckParams(3_000, 500, 0.0),
        ),
        (
            "tcpHealthParams",
            {"max": CHECK_MS_MAX, "min": 500, "factor": 1},
            "tcp_health_params",
            CheckParams(CHECK_MS_MAX, 500, 1.0),
        ),
        ("mysqlHealthParams", {"max": 1, "min": 1, "factor": 0.5}, "mysql_health_params", CheckParams(1, 1, 0.5)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_batch_sets_a_field(name: str, value: object, field: str, taken: object) -> None:
    assert getattr(from_json({name: value}, BASE), field) == taken


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("masters", "a"),
        ("masters", [1]),
        ("masters", ["a"] * (ENTRIES_MAX + 1)),
        ("incrementalList", {}),
        ("adWeightMap", {"a": LONG_BOUND}),
        ("adWeightMap", {"a": True}),
        ("adWeightMap", {"a": 1.5}),
        ("adWeightMap", MOST_WEIGHTS | {"one too many": 1}),
        ("adWeightMap", []),
        ("checkTimes", True),
        ("checkTimes", 1.0),
        ("checkTimes", LONG_BOUND),
        ("checkTimes", 0),
        ("clientBeatInterval", 0),
        ("defaultCacheMillis", 0),
        ("defaultPushCacheMillis", 0),
        ("distroThreshold", 0),
        ("distroThreshold", float("inf")),
        ("distroThreshold", "1"),
        ("pushEnabled", 1),
        ("pushGoVersion", 1),
        ("overriddenServerStatus", "no"),
        ("limitedUrlMap", {"/a": 199}),
        ("limitedUrlMap", {"/a": 600}),
        ("limitedUrlMap", {"": 200}),
        ("httpHealthParams", {"max": 2_999, "min": 500, "factor": 0.5}),
        ("tcpHealthParams", {"max": 3_000, "min": 499, "factor": 0.5}),
        ("httpHealthParams", {"max": CHECK_MS_MAX + 1, "min": 500, "factor": 0.5}),
        ("tcpHealthParams", {"max": 3_000, "min": 500, "factor": 1.1}),
        ("mysqlHealthParams", {"max": 3_000, "min": 500, "factor": -0.1}),
        ("httpHealthParams", {"max": 3_000, "min": 500}),
        ("httpHealthParams", {"max": 3_000, "min": 500, "factor": float("nan")}),
        ("httpHealthParams", {"max": 1e300, "min": 500, "factor": 0.5}),
        ("httpHealthParams", {"max": "3000", "min": 500, "factor": 0.5}),
        ("httpHealthParams", {"max": 3_000, "min": True, "factor": 0.5}),
        ("httpHealthParams", []),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_batch_with_a_wrong_field_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParam):
        from_json({name: value}, BASE)


def test_a_refusal_names_the_field_as_it_came() -> None:
    for name in ("masters", "adWeightMap", "pushEnabled", "httpHealthParams", "defaultCacheMillis"):
        with pytest.raises(InvalidParam, match=f"field '{name}' of the switches"):
            from_json({name: 0 if name == "defaultCacheMillis" else "x"}, BASE)
