"""NamingService: what an update needs, and what a beat brings back."""

import pytest

from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry import operations
from app.naming.registry.operations import Beat, RegisterInstance
from app.naming.registry.registry import Registry
from app.naming.service import NamingService
from tests.support.fake_node import FakeNode

SERVICE = "DEFAULT_GROUP@@orders"


@pytest.fixture
def naming() -> NamingService:
    return NamingService(Registry("127.0.0.1:8848~1"), lambda: 0, lambda event: None)


def register(port: int = 8080, cluster: str = "DEFAULT", **attributes: bool) -> RegisterInstance:
    return RegisterInstance(SERVICE, "10.0.0.1", port, cluster=cluster, **attributes)


def clusters(naming: NamingService) -> list[str]:
    view = naming.service_view("public", SERVICE)
    return sorted(one.cluster_name for one in view.instances) if view else []


def test_a_strict_update_takes_an_instance_of_this_address_in_any_cluster(naming: NamingService) -> None:
    naming.register(register())
    naming.update(register(cluster="other"), strict=True)
    assert clusters(naming) == ["DEFAULT", "other"]


@pytest.mark.parametrize("update", [register(port=8081), register(ephemeral=False)])
def test_a_strict_update_creates_nothing(naming: NamingService, update: RegisterInstance) -> None:
    naming.register(register())
    with pytest.raises(InvalidParam, match=f"instance not exist: 10.0.0.1:{update.port}:unknown:DEFAULT"):
        naming.update(update, strict=True)
    assert clusters(naming) == ["DEFAULT"]


def test_an_instance_that_a_beat_brings_gets_the_id_that_its_metadata_asks_for(naming: NamingService) -> None:
    metadata = {"preserved.instance.id.generator": "snowflake"}
    for port in (8080, 8081):
        naming.beat(Beat(SERVICE, "10.0.0.1", port, full=True, metadata=metadata))
    naming.beat(Beat(SERVICE, "10.0.0.1", 8082, full=True))
    view = naming.service_view("public", SERVICE)
    assert view is not None
    assert [one.instance_id for one in view.instances] == ["0", "1", f"10.0.0.1#8082#DEFAULT#{SERVICE}"]


def test_a_quick_detail_is_the_detail() -> None:
    node = FakeNode()
    node.naming.register(register(8080))
    node.durable.register(register(8081)._replace(ephemeral=False))
    node.naming.register(register(8081))
    for port, ephemeral in ((8080, True), (8081, False)):
        asked = ("public", SERVICE, "10.0.0.1", port, "DEFAULT")
        quick = node.naming.quick_detail(*asked)
        assert quick is not None
        assert quick is node.naming.detail(*asked)
        assert quick.ephemeral is ephemeral
    assert node.naming.quick_detail("public", SERVICE, "10.0.0.1", 8080, "other") is None
    assert node.naming.quick_detail("other", SERVICE, "10.0.0.1", 8080, "DEFAULT") is None


def test_a_beat_makes_an_unhealthy_instance_healthy(naming: NamingService) -> None:
    naming.register(register())
    for healthy in (False, True):
        naming.set_health("public", SERVICE, operations.key_of(register()), False)
        if healthy:
            naming.beat(Beat(SERVICE, "10.0.0.1", 8080))
        view = naming.service_view("public", SERVICE)
        assert view is not None
        assert [one.healthy for one in view.instances] == [healthy]


@pytest.mark.parametrize(("text", "interval_ms"), [(None, 7_000), ("2500", 2_500), ("soon", 5_000)])
def test_a_beat_is_answered_with_the_interval_of_its_instance(
    naming: NamingService, text: str | None, interval_ms: int
) -> None:
    naming.register(register()._replace(metadata={"preserved.heart.beat.interval": text} if text else {"zone": "a"}))
    answer = naming.beat(Beat(SERVICE, "10.0.0.1", 8080), 7_000)
    assert (answer.interval_ms, answer.known) == (interval_ms, True)
