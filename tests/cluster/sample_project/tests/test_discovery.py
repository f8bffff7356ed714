"""The shop's own tests: against a real registry, and against three members that things happen to."""

import pytest
from shop.discovery import Discovery, NobodyThere


def test_what_is_announced_is_found(rollcall):
    shop = Discovery(rollcall.url)
    shop.announce("orders", "10.0.0.1", 8080)
    assert shop.find("orders") == "10.0.0.1:8080"
    [instance] = rollcall.wait_for_instances("orders")
    assert instance.healthy


def test_nobody_is_found_where_nobody_is(rollcall):
    with pytest.raises(NobodyThere):
        Discovery(rollcall.url).find("orders")


def test_an_instance_that_falls_silent_is_not_found_any_more(rollcall):
    shop = Discovery(rollcall.url)
    shop.announce("orders", "10.0.0.1", 8080)
    shop.announce("orders", "10.0.0.2", 8080)
    for _ in range(6):
        rollcall.clock.advance(5)
        shop.beat("orders", "10.0.0.2", 8080)
    rollcall.clock.advance(1)
    assert shop.find("orders") == "10.0.0.2:8080"
    assert [one.ip for one in rollcall.instances("orders")] == ["10.0.0.2"]


def test_the_shop_goes_on_when_the_registry_is_back(rollcall):
    shop = Discovery(rollcall.url)
    rollcall.kill()
    with pytest.raises(NobodyThere):
        shop.find("orders")
    rollcall.restart()
    shop.announce("orders", "10.0.0.1", 8080)
    assert shop.find("orders") == "10.0.0.1:8080"


def test_the_shop_goes_on_when_a_member_dies(rollcall_cluster):
    shop = Discovery(*(member.url for member in rollcall_cluster))
    shop.announce("orders", "10.0.0.1", 8080)
    rollcall_cluster.wait_for_instances("orders")
    rollcall_cluster.kill(0)
    assert shop.find("orders") == "10.0.0.1:8080"


def test_both_sides_of_a_cut_network_serve_and_agree_after_it(rollcall_cluster):
    near, far = Discovery(rollcall_cluster[0].url), Discovery(rollcall_cluster[1].url)
    rollcall_cluster.partition(0)
    rollcall_cluster.settle()
    near.announce("orders", "10.0.0.1", 8080)
    with pytest.raises(NobodyThere):
        far.find("orders")
    rollcall_cluster.heal()
    rollcall_cluster.settle()
    near.beat("orders", "10.0.0.1", 8080)
    rollcall_cluster.wait_for_instances("orders")
    assert far.find("orders") == "10.0.0.1:8080"
