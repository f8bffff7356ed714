"""What a session is started with; that it starts is shown by the tests marked ``spark``."""

import os
import sys
from pathlib import Path

import pytest

from app.tools.audit.check import session
from app.tools.audit.check.java import NoJava
from app.tools.audit.check.session import (
    NoSpark,
    asks_for_connect,
    default_memory_mib,
    group_limit,
    open_session,
    spark_environ,
    too_old,
)

HOME = Path("/made/home")
MIB = 1024**2


@pytest.fixture(autouse=True)
def plain_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(session, "pyspark_version", lambda: "4.3.0")


def test_spark_uses_this_interpreter_and_the_loopback_address() -> None:
    changes = spark_environ({}, HOME, is_local=True)
    assert changes["JAVA_HOME"] == "/made/home"
    assert changes["PYSPARK_PYTHON"] == changes["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert changes["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_an_address_that_was_named_stays() -> None:
    assert "SPARK_LOCAL_IP" not in spark_environ({"SPARK_LOCAL_HOSTNAME": "driver"}, HOME, is_local=True)
    assert "SPARK_LOCAL_IP" not in spark_environ({"SPARK_LOCAL_IP": "10.0.0.1"}, HOME, is_local=True)


def test_a_cluster_can_reach_the_driver() -> None:
    assert "SPARK_LOCAL_IP" not in spark_environ({}, HOME, is_local=False)


def test_the_log_is_ours_unless_there_is_another(tmp_path: Path) -> None:
    options = spark_environ({"SPARK_SUBMIT_OPTS": "-Da=b"}, HOME, is_local=True)["SPARK_SUBMIT_OPTS"]
    kept, ours = options.split()
    assert kept == "-Da=b"
    file = Path(ours.removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = error" in file.read_text()

    own = {"SPARK_SUBMIT_OPTS": "-Dlog4j2.configurationFile=/etc/x"}
    assert "SPARK_SUBMIT_OPTS" not in spark_environ(own, HOME, is_local=True)
    conf = {"SPARK_CONF_DIR": str(tmp_path)}
    assert "SPARK_SUBMIT_OPTS" in spark_environ(conf, HOME, is_local=True)
    (tmp_path / "log4j2.properties").touch()
    assert "SPARK_SUBMIT_OPTS" not in spark_environ(conf, HOME, is_local=True)


@pytest.mark.parametrize(
    ("machine_mib", "memory_mib"), [(1_000, 1_024), (4_096, 2_048), (12_000, 6_000), (65_536, 8_192)]
)
def test_the_driver_gets_half_of_the_memory_within_bounds(
    machine_mib: int, memory_mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": machine_mib * 256}
    monkeypatch.setattr(os, "sysconf", told.__getitem__)
    monkeypatch.setattr(session, "group_limit", lambda *_: None)
    assert default_memory_mib() == memory_mib


@pytest.mark.parametrize(
    ("rows", "memory_mib"), [(0, 768), (200_000, 768), (200_001, 1_062), (6_000_000, 2_168), (10**9, 8_192)]
)
def test_the_memory_follows_the_rows(rows: int, memory_mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 65_536 * 256}
    monkeypatch.setattr(os, "sysconf", told.__getitem__)
    monkeypatch.setattr(session, "group_limit", lambda *_: None)
    assert default_memory_mib(rows) == memory_mib


def test_the_limit_of_a_service_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 65_536 * 256}
    monkeypatch.setattr(os, "sysconf", told.__getitem__)
    monkeypatch.setattr(session, "group_limit", lambda *_: 6_000 * MIB)
    assert default_memory_mib() == 3_000


def test_the_least_limit_on_the_way_up_is_found(tmp_path: Path) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "root"
    groups.write_text("4:memory:/old\n0::/system.slice/check.service\n")
    own = root / "system.slice" / "check.service"
    own.mkdir(parents=True)
    assert group_limit(groups, root) is None, "no limit is told"
    (own / "memory.max").write_text("max\n")
    (own.parent / "memory.max").write_text(f"{300 * MIB}\n")
    (root / "memory.max").write_text(f"{500 * MIB}\n")
    assert group_limit(groups, root) == 300 * MIB
    groups.write_text("4:memory:/old\n")
    assert group_limit(groups, root) is None
    assert group_limit(tmp_path / "none", root) is None


def test_without_pyspark_the_text_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    with pytest.raises(NoSpark, match=r"pip install 'rollcall-registry\[audit\]'"):
        open_session(None, "test", shuffle_partitions=1)


@pytest.mark.parametrize("version", ["3.5.9", "2.4.8"])
def test_a_release_of_spark_that_is_too_old_is_refused_in_one_line(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: object())
    monkeypatch.setattr(session, "pyspark_version", lambda: version)
    with pytest.raises(
        NoSpark, match=rf"^the check needs Spark 4\.0 or newer, and this is Spark {version}: pip install .*$"
    ):
        open_session(None, "test", shuffle_partitions=1)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "10.0.0.dev1", "unknown"])
def test_other_releases_of_spark_are_not(version: str) -> None:
    assert too_old(version) is None


def test_without_java_the_text_is_that_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise NoJava("Spark needs Java")

    monkeypatch.setattr(session, "find_spec", lambda _: object())
    monkeypatch.setattr(session, "prepare", refuse)
    with pytest.raises(NoSpark, match=r"^Spark needs Java$"):
        open_session(None, "test", shuffle_partitions=1)


@pytest.mark.parametrize("memory", ["0g", "lots", "2 g", "g", "-1g"])
def test_a_memory_that_is_no_size_is_refused(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: object())
    with pytest.raises(NoSpark, match="is not a size"):
        open_session(None, "test", shuffle_partitions=1, driver_memory=memory)


def test_a_session_of_spark_connect_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("SPARK_REMOTE", "sc://10.0.0.1:15002")
    with pytest.raises(NoSpark, match=r"not one of Spark Connect.*by the variable SPARK_REMOTE\)$"):
        open_session("local[1]", "test", shuffle_partitions=1)


@pytest.mark.parametrize(
    ("environ", "master", "remote", "asked"),
    [
        ({}, None, None, None),
        ({"SPARK_API_MODE": "classic", "SPARK_REMOTE": ""}, "local[2]", "", None),
        ({}, None, "sc://10.0.0.1", "--remote"),
        ({}, "sc://10.0.0.1", None, "--master"),
        ({"SPARK_REMOTE": "sc://10.0.0.1"}, None, None, "the variable SPARK_REMOTE"),
        ({"SPARK_CONNECT_MODE_ENABLED": "1"}, None, None, "the variable SPARK_CONNECT_MODE_ENABLED"),
        ({"SPARK_API_MODE": "connect"}, None, None, "the variable SPARK_API_MODE"),
    ],
)
def test_what_asks_for_spark_connect(
    environ: dict[str, str], master: str | None, remote: str | None, asked: str | None
) -> None:
    assert asks_for_connect(environ, master, remote) == asked


@pytest.mark.parametrize(
    ("defaults", "asked"),
    [
        ("spark.remote sc://10.0.0.1\n", "spark.remote in spark-defaults.conf"),
        ("# no\n  spark.api.mode = connect\n", "spark.api.mode in spark-defaults.conf"),
        ("# spark.remote sc://10.0.0.1\nspark.api.mode classic\nspark.remotely 1\n", None),
    ],
)
def test_sparks_defaults_may_ask_for_it(defaults: str, asked: str | None, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    assert asks_for_connect({"SPARK_CONF_DIR": str(tmp_path)}, None, None) == asked
    assert asks_for_connect({"SPARK_CONF_DIR": str(tmp_path / "missing")}, None, None) is None
