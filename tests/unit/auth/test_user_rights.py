"""Which resources a permission is about."""

import pytest

from app.auth.access_rules import READ, WRITE
from app.auth.user_rights import Pattern, Permission, Resource, Rights
from app.naming.records.user_records import ADMIN_ROLE

ORDERS = Resource.of_service("dev", "shop@@orders")


def permits(rule: str, resource: Resource) -> bool:
    permission = Permission.of(rule, "r")
    return permission is not None and permission.allows(READ, resource)


@pytest.mark.parametrize(
    "rule",
    [
        "dev:shop:naming/orders",
        "dev:shop:naming/*",
        "dev:*:naming/orders",
        "dev:*:*",
        "*:*:*",
        "d*v:sh*:naming/o*r*s",
        "dev:shop:*",
    ],
)
def test_a_rule_that_fits_the_whole_resource_permits(rule: str) -> None:
    assert permits(rule, ORDERS)


@pytest.mark.parametrize(
    "rule",
    [
        "dev:shop:naming/order",
        "dev:shop:naming/orders2",
        "dev:shop:orders",
        "dev:shop:config/*",
        "dev:sho:*",
        ":*:*",
        "deve:*:*",
        "ev:*:*",
        "*:shops:*",
        "dev:shop:naming/*x",
    ],
)
def test_a_rule_that_fits_a_part_permits_nothing(rule: str) -> None:
    assert not permits(rule, ORDERS)


@pytest.mark.parametrize("rule", [":*:*", "public:*:*"])
@pytest.mark.parametrize("namespace", ["public", ""])
def test_the_public_namespace_has_no_name_or_its_own(rule: str, namespace: str) -> None:
    assert permits(rule, Resource.of_service(namespace, "g@@s"))


@pytest.mark.parametrize("namespace", ["PUBLIC", "null", "publi", "dev"])
def test_another_namespace_is_not_the_public_one(namespace: str) -> None:
    assert not permits(":*:*", Resource.of_service(namespace, "g@@s"))


def test_a_colon_in_a_name_makes_no_further_part() -> None:
    assert not permits("dev:*:*", Resource.of_service("dev:x", "g@@s"))
    assert not permits("dev:x:*", Resource.of_service("dev:x:naming/y", "g@@s"))
    assert permits("dev:a:b:naming/c:d", Resource.of_service("dev", "a:b@@c:d"))


def test_all_services_of_a_namespace_need_a_rule_for_all() -> None:
    everything = Resource.of_service("dev", None)
    assert permits("dev:*:*", everything)
    assert not permits("dev:shop:naming/*", everything)
    assert not permits("dev:*:naming/orders", everything)
    assert permits("dev:shop:naming/*", Resource("dev", "shop"))


def test_all_namespaces_need_a_rule_for_all() -> None:
    assert permits("*:*:*", Resource(None))
    assert not permits("d*:*:*", Resource(None))


def test_actions_are_the_letters() -> None:
    for actions, allowed in (("r", (True, False)), ("w", (False, True)), ("rw", (True, True))):
        permission = Permission.of("dev:*:*", actions)
        assert permission is not None
        assert (permission.allows(READ, ORDERS), permission.allows(WRITE, ORDERS)) == allowed


def test_an_administrator_may_do_everything() -> None:
    assert Rights.of([ADMIN_ROLE], []).allows(WRITE, Resource(None))
    assert not Rights.of(["ROLE_ADMINS"], []).allows(READ, ORDERS)


def test_a_pattern_with_many_stars_takes_no_longer() -> None:
    assert not Pattern.of("*a" * 500 + "b").matches("a" * 5_000)
