"""A registry in the process of a test: what it answers, what it waits for, and what is left of it."""

import json
import os
import sys
import threading
import urllib.request
import warnings
from pathlib import Path

import pytest

from app.testing import CallRefused, Registry, UseError, WaitOver
from tests.support.listener import Listener
from tests.support.sdk_client import SdkClient, run_client


def open_files() -> set[str]:
    """What this process has open, without what has no name of its own."""
    found = set()
    for one in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{one}"))
        except FileNotFoundError:
            continue
    return found


def test_an_instance_is_registered_listed_and_removed() -> None:
    with Registry() as registry:
        registry.register("orders", "10.0.0.1", 80, weight=2.5, metadata={"zone": "a"})
        registry.register("orders", "10.0.0.2", 81, cluster="B")
        first, second = registry.instances("orders")
        assert (first.address, first.weight, first.metadata) == ("10.0.0.1:80", 2.5, {"zone": "a"})
        assert (second.address, second.cluster, second.healthy, second.ephemeral) == ("10.0.0.2:81", "B", True, True)
        assert [one.address for one in registry.instances("orders", clusters="B")] == ["10.0.0.2:81"]
        registry.deregister("orders", "10.0.0.2", 81, cluster="B")
        assert [one.address for one in registry.instances("orders")] == ["10.0.0.1:80"]


def test_groups_and_namespaces_are_apart() -> None:
    with Registry() as registry:
        registry.register("orders", group="BLUE", namespace="space")
        assert registry.instances("orders") == []
        assert len(registry.instances("orders", group="BLUE", namespace="space")) == 1


def test_its_addresses_are_those_of_real_ports() -> None:
    with Registry() as registry:
        with urllib.request.urlopen(f"{registry.url}/v1/console/health/readiness") as answer:
            assert answer.status == 200
        assert registry.url == f"http://{registry.address}/nacos"
        assert registry.grpc_port == registry.port + 1_000
        assert registry.port < 32_768


def test_an_sdk_over_grpc_is_pushed_what_http_registers_and_what_expires() -> None:
    with Registry() as registry:

        async def main() -> None:
            async with SdkClient(registry.grpc_port) as sdk:
                await sdk.set_up()
                await sdk.register("orders", "10.0.0.1")
                await sdk.subscribe("orders")
                registry.register("orders", "10.0.0.2", 80)
                await sdk.wait(lambda: [len(one["hosts"]) for one in sdk.pushes()][-1:] == [2])
                registry.clock.advance(31)
                await sdk.wait(lambda: [len(one["hosts"]) for one in sdk.pushes()][-1:] == [1])
                assert list(await sdk.hosts("orders")) == ["10.0.0.1:80"], "a connection is its beat"

        run_client(main)
        assert registry.wait_for_instances("orders", 0) == []


def test_a_subscriber_over_udp_is_pushed_what_expires() -> None:
    listener = Listener()
    try:
        with Registry() as registry:
            registry.register("orders", "10.0.0.1", 80)
            target = f"{registry.url}/v1/ns/instance/list?serviceName=orders&udpPort={listener.port}&clientIP=127.0.0.1"
            request = urllib.request.Request(target, headers={"User-Agent": "Nacos-Java-Client:v1.4.1"})
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 200
            assert registry.subscriber_count("orders") == 1
            registry.clock.advance(31)
            while json.loads(listener.receive()["data"])["hosts"]:
                continue  # it became unhealthy before
    finally:
        listener.close()


def test_an_acknowledged_push_ends_the_wait_for_it() -> None:
    with Registry() as registry:

        async def main() -> None:
            async with SdkClient(registry.grpc_port) as sdk:
                await sdk.set_up()
                await sdk.subscribe("orders")
                registry.register("orders")
                await sdk.wait(lambda: any(one["hosts"] for one in sdk.pushes()))

        async def deaf() -> None:
            async with SdkClient(registry.grpc_port, acknowledges=False) as sdk:
                await sdk.set_up()
                await sdk.subscribe("carts")
                registry.register("carts")
                await sdk.wait(lambda: any(one["hosts"] for one in sdk.pushes()))
                with pytest.raises(WaitOver, match="acknowledgement of all who subscribe to carts"):
                    registry.wait_for_pushes("carts", timeout_s=0)

        run_client(main)
        assert registry.wait_for_pushes("orders") <= 1
        run_client(deaf)


def test_a_wait_ends_with_the_change_that_another_thread_makes() -> None:
    with Registry() as registry:
        other = threading.Thread(target=registry.register, args=("orders", "10.0.0.1", 80))
        other.start()
        [found] = registry.wait_for_instances("orders")
        other.join()
        assert found.address == "10.0.0.1:80"
        assert registry.wait_until(lambda: registry.instances("orders"), expected="an instance") == [found]


def test_a_wait_that_is_over_says_what_there_was() -> None:
    with Registry() as registry:
        registry.register("orders", "10.0.0.1", 80)
        with pytest.raises(
            WaitOver, match=r"waited 0 s for 2 instances of orders at 127.0.0.1:\d+, without success.*10\.0\.0\.1"
        ):
            registry.wait_for_instances("orders", 2, timeout_s=0)


def test_settings_of_a_node_are_followed() -> None:
    with Registry(settings={"nacos.naming.expireInstance": False, "rollcall.rpc.enabled": False}) as registry:
        registry.register("orders", "10.0.0.1", 80)
        registry.clock.advance(60)
        assert len(registry.instances("orders")) == 1, "it is never removed"
        with pytest.raises(UseError, match=r"rollcall\.rpc\.enabled"):
            assert registry.grpc_port


def test_the_environment_of_the_test_sets_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NACOS_MEMBER_LIST", "127.0.0.1:1,127.0.0.1:2")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "application.properties").write_text("server.servlet.contextPath=/else\n")
    monkeypatch.chdir(tmp_path)
    with Registry() as registry:
        assert registry.url.endswith("/nacos")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"rollcall.warm.maxAge": 1}, "did you mean 'rollcall.warm.maxAgeMs'"),
        ({"server.port": 8848}, "give port=... instead"),
        ({"rollcall.http.threads": 1}, "rollcall.http.threads=1 is not allowed: a whole number from 4 to 512"),
        ({"rollcall.http.tls.enabled": True}, "plain HTTP"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_where_it_is_given(settings: dict[str, int], text: str) -> None:
    with pytest.raises(UseError) as caught:
        Registry(settings=settings)
    assert text in str(caught.value)


def test_misuse_is_told() -> None:
    registry = Registry()
    with pytest.raises(UseError, match="has no port yet"):
        assert registry.url
    with registry, pytest.raises(UseError, match=rf"port {registry.port}, .* is in use"):
        Registry(port=registry.port).start()
    with pytest.raises(UseError, match="serves once"):
        registry.start()
    with pytest.raises(UseError, match="does not run"):
        registry.kill()
    with pytest.raises(UseError, match="from 1 to"):
        Registry(port=0).start()


def test_a_call_that_is_refused_says_why() -> None:
    with Registry() as registry, pytest.raises(CallRefused, match="POST /v1/ns/instance at") as caught:
        registry.register("orders", port=70_000)
    assert caught.value.status == 400


def test_users_and_their_tokens() -> None:
    settings = {
        "nacos.core.auth.enabled": True,
        "nacos.core.auth.plugin.nacos.token.secret.key": "c2VjcmV0IG9mIHRlc3RzLCBhcyBsb25nIGFzIG9uZSBtdXN0IGJlIQ==",
    }
    with Registry(settings=settings) as registry:
        with pytest.raises(CallRefused) as caught:
            registry.register("orders")
        assert caught.value.status == 403
        registry.call("POST", "/v1/auth/users/admin", password="a password of tests")
        registry.login("nacos", "a password of tests")
        registry.register("orders")
        registry.clock.advance(20)
        assert len(registry.instances("orders")) == 1


def test_what_is_durable_outlives_a_restart_and_what_is_not_goes_with_a_killed_process(tmp_path: Path) -> None:
    with Registry(data_dir=tmp_path, settings={"rollcall.warm.maxAgeMs": 0}) as registry:
        registry.register("stays", ephemeral=False)
        registry.register("goes")
        url = registry.url
        registry.kill()
        assert not registry.is_running
        with pytest.raises(OSError, match="refused"):
            registry.instances("stays")
        registry.restart()
        assert registry.url == url
        assert len(registry.instances("stays")) == 1
        assert registry.instances("goes") == []
    with Registry(data_dir=tmp_path) as registry:
        assert len(registry.instances("stays")) == 1


def test_nothing_is_left_of_it() -> None:
    with Registry() as registry:
        registry.register("orders")
        registry.call("GET", "/v1/ns/operator/metrics")  # by a thread of a pool
    threads, files, interval_s = set(threading.enumerate()), open_files(), sys.getswitchinterval()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Registry() as registry:
            registry.register("orders")
            registry.call("GET", "/v1/ns/operator/metrics")
            [folder] = {path.rpartition("/data/")[0] for path in open_files() - files if "/data/" in path}
            assert Path(folder).is_dir()
    assert set(threading.enumerate()) == threads
    assert not [one for one in open_files() - files if "rollcall-" in one or "socket" in one]
    assert not Path(folder).exists()
    assert sys.getswitchinterval() == interval_s
    assert not caught


def test_nothing_is_left_of_one_that_could_not_start(tmp_path: Path) -> None:
    with Registry(data_dir=tmp_path) as first:
        with pytest.raises(UseError, match=r"in use by another node.*give another data_dir"):
            Registry(data_dir=tmp_path).start()
        first.register("orders")
        assert len(first.instances("orders")) == 1


def test_several_serve_side_by_side_with_clocks_of_their_own() -> None:
    with Registry() as one, Registry() as other:
        one.register("orders")
        other.register("orders")
        one.clock.advance(31)
        assert one.instances("orders") == []
        assert len(other.instances("orders")) == 1
