"""Java's string hash, and owners that follow from it, for any names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.members.mapper import INT_MAX, DistroMapper, distro_hash, java_string_hash

TEXTS = st.text(max_size=60)
JAVA = [
    ("DEFAULT_GROUP@@svc0", -1251530799, (1, 0, 4)),
    ("DEFAULT_GROUP@@svc1", -1251530798, (0, 2, 3)),
    ("DEFAULT_GROUP@@svc2", -1251530797, (1, 1, 2)),
    ("DEFAULT_GROUP@@r5", 1862382660, (0, 0, 0)),
    ("g@@你好", 97743620, (0, 2, 0)),
    ("DEFAULT_GROUP@@nacos.test.3", -301437166, (0, 1, 1)),
]
"""Tag, hash, and index in a list of 2, 3 and 5 members: from a running Nacos 1.4.8."""


@pytest.mark.parametrize(("tag", "value", "indexes"), JAVA)
def test_the_owner_is_that_of_real_members(tag: str, value: int, indexes: tuple[int, int, int]) -> None:
    assert java_string_hash(tag) == value
    for size, index in zip((2, 3, 5), indexes, strict=True):
        servers = tuple(f"10.0.0.{number}:8848" for number in range(size))
        assert DistroMapper("10.0.0.0:8848", servers).map_srv(tag) == servers[index]


def hash_by_definition(text: str) -> int:
    """``s[0]*31^(n-1) + ... + s[n-1]`` over UTF-16 units, wrapped to 32 bits. Source: Java API, String.hashCode."""
    units = text.encode("utf-16-be")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    value = sum(code * 31 ** (len(codes) - 1 - at) for at, code in enumerate(codes)) % 2**32
    return value - 2**32 if value >= 2**31 else value


@given(TEXTS)
def test_the_hash_is_what_java_defines(text: str) -> None:
    assert java_string_hash(text) == hash_by_definition(text)
    assert distro_hash(text) == abs(java_string_hash(text)) % INT_MAX


@given(TEXTS, st.lists(st.from_regex(r"10\.0\.[0-9]{1,2}\.[0-9]{1,2}:8848", fullmatch=True), min_size=1, unique=True))
def test_exactly_one_member_of_a_view_is_responsible(tag: str, servers: list[str]) -> None:
    owners = [one for one in servers if DistroMapper.over(one, servers).responsible(tag)]
    assert len(owners) == 1
    assert {DistroMapper.over(one, servers).map_srv(tag) for one in servers} == set(owners)
