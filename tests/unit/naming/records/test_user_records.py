"""The values of users' records: each field comes back as it was stored, within its bounds, and a refusal names it."""

from typing import Any

import pytest

from app.naming.model.keys import WALL_MS_END
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.user_records import (
    ENDED_MAX,
    GENERATION_CHARS_MAX,
    HASH_CHARS_MAX,
    NAME_CHARS_MAX,
    RESOURCE_CHARS_MAX,
    User,
    check_name,
    check_resource,
    user_of,
)

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"
TOKEN = "0123456789abcdef" * 2
VALUE = {"password": HASH, "generation": "g", "setMs": 7}


@pytest.mark.parametrize("ended", [{}, {TOKEN: 0}, {TOKEN: WALL_MS_END, "f" * 32: 5}])
def test_a_user_comes_back_as_stored(ended: dict[str, int]) -> None:
    user = User("bob", HASH, "g", 7, ended)
    assert user_of("bob", user.to_json()) == user


@pytest.mark.parametrize(
    "fields",
    [
        {"password": HASH + "x" * (HASH_CHARS_MAX - len(HASH))},
        {"generation": "g" * GENERATION_CHARS_MAX},
        {"setMs": 0},
        {"setMs": WALL_MS_END - 1},
        {"ended": {f"{number:032x}": 1 for number in range(ENDED_MAX)}},
    ],
)
def test_a_field_at_its_bound_is_taken(fields: dict[str, Any]) -> None:
    value = VALUE | fields
    assert user_of("bob", value).to_json() == value


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"password": HASH + "x" * (HASH_CHARS_MAX - len(HASH) + 1)}, "field 'password' of a user "),
        ({"password": "$argon2id$"}, "field 'password' of a user "),
        ({"generation": "g" * (GENERATION_CHARS_MAX + 1)}, "field 'generation' of a user "),
        ({"setMs": -1}, "field 'setMs' of a user "),
        ({"setMs": WALL_MS_END}, "field 'setMs' of a user "),
        ({"setMs": None}, "field 'setMs' of a user "),
        ({"ended": [TOKEN]}, "field 'ended' of a user "),
        ({"ended": {TOKEN[:-1]: 1}}, "field 'ended' of a user "),
        ({"ended": {f"{number:032x}": 1 for number in range(ENDED_MAX + 1)}}, "field 'ended' of a user "),
        ({"ended": {TOKEN: -1}}, f"field '{TOKEN}' of a user's ended tokens "),
        ({"ended": {TOKEN: WALL_MS_END + 1}}, f"field '{TOKEN}' of a user's ended tokens "),
    ],
)
def test_a_field_beyond_its_bound_is_refused_by_its_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidParam) as refused:
        user_of("bob", VALUE | fields)
    assert named in refused.value.text


@pytest.mark.parametrize("name", ["b", "b" * NAME_CHARS_MAX, "bob the builder", "名"])
def test_a_name_that_can_be_part_of_a_key_is_allowed(name: str) -> None:
    check_name("username", name)


@pytest.mark.parametrize("name", ["", "b" * (NAME_CHARS_MAX + 1), "b\nob", " bob", "bob ", "a/b"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidParam, match="username"):
        check_name("username", name)


@pytest.mark.parametrize("resource", ["dev:*:*", "::", "a:b:naming/c:d", ":*:" + "x" * (RESOURCE_CHARS_MAX - 3)])
def test_a_pattern_of_three_parts_is_allowed(resource: str) -> None:
    check_resource(resource)


@pytest.mark.parametrize("resource", ["", "dev", "dev:*", "dev:*:\n", "dev\n", ":*:" + "x" * (RESOURCE_CHARS_MAX - 2)])
def test_any_other_pattern_is_refused(resource: str) -> None:
    with pytest.raises(InvalidParam, match="resource"):
        check_resource(resource)
