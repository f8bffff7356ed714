"""Who is responsible: hash values of real Java, and the list they are taken over."""

import pytest

from distro.members.mapper import DistroMapper, WriterMapper, distro_hash, java_string_hash

VECTORS = [
    ("DEFAULT_GROUP@@nacos.test.1", -301437168, 301437168),
    ("DEFAULT_GROUP@@order-service", 490904149, 490904149),
    ("g@@svc", -1285038503, 1285038503),
    ("127.0.0.1:8080", -35736627, 35736627),
    ("DEFAULT_GROUP@@svc0", -1251530799, 1251530799),
    ("DEFAULT_GROUP@@r5", 1862382660, 1862382660),
    ("g@@你好", 97743620, 97743620),
    ("", 0, 0),
]
"""Tag, Java's hash, and the number used: computed and in part observed with a Nacos 1.4.8."""


@pytest.mark.parametrize(("tag", "java", "used"), VECTORS)
def test_hashes_are_those_of_java(tag: str, java: int, used: int) -> None:
    assert (java_string_hash(tag), distro_hash(tag)) == (java, used)


def test_characters_beyond_the_first_plane_count_as_two_units() -> None:
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00


def test_the_list_is_sorted_as_text() -> None:
    mapper = DistroMapper.over("b:1", ["10.0.0.2:8848", "10.0.0.10:8848", "10.0.0.1:8848"])
    assert mapper.servers == ("10.0.0.10:8848", "10.0.0.1:8848", "10.0.0.2:8848")


@pytest.mark.parametrize(("tag", "indexes"), [("DEFAULT_GROUP@@svc0", (1, 0, 4)), ("DEFAULT_GROUP@@svc1", (0, 2, 3))])
def test_owners_are_those_of_real_members(tag: str, indexes: tuple[int, int, int]) -> None:
    for size, index in zip((2, 3, 5), indexes, strict=True):
        servers = [f"m{number}:1" for number in range(size)]
        assert DistroMapper.over("x:1", servers).map_srv(tag) == servers[index]


def test_a_node_out_of_the_list_owns_nothing_and_one_alone_owns_all() -> None:
    assert not DistroMapper.over("away:1", ["m0:1", "m1:1"]).responsible("any")
    assert DistroMapper.over("away:1", []).responsible("any")
    assert DistroMapper.over("one:1", ["other:1"], standalone=True).responsible("any")


def test_half_a_character_has_a_hash_too() -> None:
    assert java_string_hash("\ud83d") == 0xD83D


def test_the_keys_of_a_writer_are_its_own_whatever_the_view() -> None:
    mapper = WriterMapper.over("a:1", ["b:1"])
    assert [mapper.responsible(tag) for tag in ("a:1", "b:1")] == [True, False]
    assert mapper.map_srv("c:1") == "c:1"
