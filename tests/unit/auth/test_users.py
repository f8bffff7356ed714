"""Users, roles and permissions as records, and what becomes of them."""

import pytest

from app.auth.access_rules import READ
from app.auth.user_rights import Resource
from app.auth.users import AdminExists
from app.naming.model.events import RecordChanged
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.record_keys import (
    PermissionKey,
    RoleKey,
    UserKey,
    parse_record_key,
    permission_key,
    record_tag,
    role_key,
    user_key,
)
from app.naming.records.record_values import check_record
from app.naming.records.user_records import ADMIN_ROLE
from tests.support.auth import ADMIN, add_user, node_with_users
from tests.support.fake_node import FakeNode

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"
ORDERS = Resource.of_service("dev", "g@@orders")


@pytest.fixture
def node() -> FakeNode:
    return node_with_users()


def test_keys_are_told_apart_and_have_one_owner() -> None:
    keys = {
        user_key("bob"): UserKey("bob"),
        role_key("dev", "bob"): RoleKey("dev", "bob"),
        permission_key("dev", "rw", "a/b:*:naming/c"): PermissionKey("dev", "rw", "a/b:*:naming/c"),
    }
    assert {key: parse_record_key(key) for key in keys} == keys
    assert len({record_tag(key) for key in keys}) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (user_key("bob"), {}),
        (user_key("bob"), {"password": "plain", "generation": "g", "setMs": 1}),
        (user_key("bob"), {"password": HASH, "generation": 7, "setMs": 1}),
        (user_key("b\nob"), {"password": HASH, "generation": "g", "setMs": 1}),
        (user_key("bob"), {"password": HASH, "generation": "g", "setMs": 1, "ended": [1]}),
        (user_key("bob"), {"password": HASH, "generation": "g", "setMs": 1, "ended": {"no id": 1}}),
        (user_key("bob"), {"password": HASH, "generation": "g", "setMs": 1, "ended": {"0" * 32: "1"}}),
        (
            user_key("bob"),
            {"password": HASH, "generation": "g", "setMs": 1, "ended": {f"{n:032x}": 1 for n in range(999)}},
        ),
        (role_key("dev", " bob"), {}),
        (permission_key("dev", "x", ":*:*"), {}),
        (permission_key("dev", "rw", "dev"), {}),
    ],
)
def test_a_record_of_a_member_that_could_not_be_used_is_refused(key: str, value: dict[str, object]) -> None:
    with pytest.raises(InvalidParam) as refused:
        check_record(key, value)
    assert HASH not in refused.value.text


def test_the_first_administrator_is_made_once(node: FakeNode) -> None:
    with pytest.raises(AdminExists):
        node.users.create_first_admin("eve", HASH)
    assert node.access.table.users() == [ADMIN]


def test_a_right_begins_and_ends_with_its_records(node: FakeNode) -> None:
    table = node.access.table
    add_user(node, "bob", ("dev:*:*", "r"))
    assert table.rights("bob").allows(READ, ORDERS)
    node.users.remove_permission("role of bob", "dev:*:*", "r")
    assert not table.rights("bob").allows(READ, ORDERS)
    node.users.add_permission("role of bob", "dev:*:*", "r")
    assert table.rights("bob").allows(READ, ORDERS)
    node.users.remove_role("role of bob", "")
    assert not table.rights("bob").allows(READ, ORDERS)
    assert table.permissions() == []


def test_a_user_that_is_made_again_has_nothing_of_the_former(node: FakeNode) -> None:
    add_user(node, "bob", ("dev:*:*", "r"))
    former = node.access.table.user("bob")
    node.users.delete("bob")
    assert not node.access.table.rights("bob").allows(READ, ORDERS)
    node.users.create("bob", HASH)
    again = node.access.table.user("bob")
    assert former is not None
    assert again is not None
    assert again.generation != former.generation
    assert not node.access.table.rights("bob").allows(READ, ORDERS)


def test_each_change_is_told_to_the_members_and_raises_the_version(node: FakeNode) -> None:
    node.events.clear()
    version = node.access.table.version
    node.users.create("bob", HASH)
    node.users.add_role("dev", "bob")
    assert node.events == [RecordChanged(user_key("bob")), RecordChanged(role_key("dev", "bob"))]
    assert node.access.table.version == version + 2


def test_the_refusals_have_nacos_texts(node: FakeNode) -> None:
    add_user(node, "bob")
    users = node.users
    for text, change in (
        ("user 'bob' already exist!", lambda: users.create("bob", HASH)),
        ("user eve not exist!", lambda: users.set_password("eve", HASH)),
        ("user 'eve' not found!", lambda: users.add_role("dev", "eve")),
        (f"role '{ADMIN_ROLE}' is not permitted to create!", lambda: users.add_role(ADMIN_ROLE, "bob")),
        (f"cannot delete admin: {ADMIN}", lambda: users.delete(ADMIN)),
        ("role dev not found!", lambda: users.add_permission("dev", ":*:*", "r")),
        ("cannot delete the role of the last administrator", lambda: users.remove_role(ADMIN_ROLE, ADMIN)),
    ):
        with pytest.raises(InvalidParam) as refused:
            change()
        assert refused.value.text == text


def test_a_second_administrator_may_take_the_role_from_the_first(node: FakeNode) -> None:
    node.users.set_admin("second", HASH)
    node.users.remove_role(ADMIN_ROLE, ADMIN)
    assert not node.access.table.rights(ADMIN).is_admin
    assert node.access.table.rights("second").is_admin


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", " a", "a" * 129, "\x7f"])
def test_names_that_could_not_stand_in_a_key_or_a_line_are_refused(node: FakeNode, name: str) -> None:
    with pytest.raises(InvalidParam):
        node.users.create(name, HASH)
    with pytest.raises(InvalidParam):
        node.users.add_role(name, ADMIN)


@pytest.mark.parametrize("name", ["\uff42ob", "b\u043eb", "bo\u0301b", "BO\u0392", "bob\u3164"], ids=ascii)
def test_a_user_looks_like_no_other(node: FakeNode, name: str) -> None:
    add_user(node, "bob")
    with pytest.raises(InvalidParam, match="looks like 'bob'"):
        node.users.create(name, HASH)
    node.users.create("Bob", HASH)
    node.users.create("\u0411\u043e\u0431", HASH)


@pytest.mark.parametrize("role", ["role_admin", "ROLE_\u0410DMIN", "\uff32OLE_ADMIN"], ids=ascii)
def test_no_role_looks_like_that_of_administrators(node: FakeNode, role: str) -> None:
    add_user(node, "bob")
    with pytest.raises(InvalidParam, match="looks like 'ROLE_ADMIN'"):
        node.users.add_role(role, "bob")
