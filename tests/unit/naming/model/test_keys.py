"""Names: how they are put together, taken apart and refused."""

import pytest

from app.naming.model import keys
from app.naming.model.keys import FULL_NAME_CHARS_MAX, NAME_CHARS_MAX, NAMESPACE_ID_CHARS_MAX
from app.naming.model.nacos_errors import InvalidParam


def test_services_of_one_short_name_share_a_bucket_of_a_dump() -> None:
    services = [("public", f"{group}@@s{number}") for number in range(3_000) for group in ("A", "B")]
    found = keys.dump_order(services)
    buckets = [keys.dump_bucket(*one) for one in found]
    assert sorted(found) == sorted(services)
    assert buckets == sorted(buckets)
    assert set(buckets) > set(range(0, keys.DUMP_BUCKETS, 512))
    assert all(
        keys.dump_bucket("public", f"A@@s{one}") == keys.dump_bucket("public", f"B@@s{one}") for one in range(99)
    )
    assert keys.dump_bucket("public", "A@@s1") != keys.dump_bucket("dev", "A@@s1")


def test_a_name_gets_its_group_once() -> None:
    assert keys.compose_service_name("orders", "G") == "G@@orders"
    assert keys.compose_service_name("H@@orders", "G") == "H@@orders"


@pytest.mark.parametrize(
    ("full_name", "group", "short"),
    [("G@@orders", "G", "orders"), ("orders", "orders", "orders"), ("G@@a@@b", "G", "a"), ("@@x", "", "x")],
)
def test_a_name_is_taken_apart(full_name: str, group: str, short: str) -> None:
    assert (keys.group_of(full_name), keys.short_name_of(full_name)) == (group, short)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (keys.datum_key("public", "G@@a"), ("public", "G@@a")),
        (keys.datum_key("", "G@@a##b"), ("", "G@@a##b")),
        (keys.datum_key("public", ""), None),
        (keys.EPHEMERAL_PREFIX + "public", None),
        ("public##G@@a", None),
    ],
)
def test_a_datum_key_is_taken_apart(key: str, parts: tuple[str, str] | None) -> None:
    assert keys.parse_datum_key(key) == parts


def test_ids_of_instances() -> None:
    assert keys.instance_key("10.0.0.1", 1, "C") == "10.0.0.1:1:unknown:C"
    assert keys.instance_key("10.0.0.1", 0, "C") == "10.0.0.1:unknown:C"
    assert keys.simple_instance_id("10.0.0.1", 80, "C", "G@@a") == "10.0.0.1#80#C#G@@a"


@pytest.mark.parametrize("full_name", ["orders", "G@@", "", "@@", "G@@@@"])
def test_a_name_needs_both_parts(full_name: str) -> None:
    with pytest.raises(InvalidParam):
        keys.check_service_format(full_name)


@pytest.mark.parametrize("full_name", ["G@@a", "@@a", "G@@a@@b", "G@@a@@"])
def test_a_name_with_both_parts(full_name: str) -> None:
    keys.check_service_format(full_name)


@pytest.mark.parametrize(
    ("check", "longest", "wrong"),
    [
        (keys.check_service_chars, "a" * FULL_NAME_CHARS_MAX, ["a\nb", "", "a\ud800", "a" * (FULL_NAME_CHARS_MAX + 1)]),
        (keys.check_cluster_chars, "a" * NAME_CHARS_MAX, ["a_b", "", "a" * (NAME_CHARS_MAX + 1)]),
        (keys.check_namespace, "a" * NAME_CHARS_MAX, ["a##b", "a#", "a" * (NAME_CHARS_MAX + 1)]),
    ],
    ids=["service", "cluster", "namespace"],
)
def test_names_have_a_length_and_characters(check: object, longest: str, wrong: list[str]) -> None:
    check(longest)  # type: ignore[operator]
    for name in wrong:
        with pytest.raises(InvalidParam):
            check(name)  # type: ignore[operator]


def test_the_id_of_a_namespace_that_is_created_has_a_length_and_characters() -> None:
    longest = "a" * NAMESPACE_ID_CHARS_MAX
    assert all(map(keys.is_namespace_id, ["a-B_1", longest]))
    assert not any(map(keys.is_namespace_id, ["", "a b", "\u00e4", "a\n", longest + "a"]))


@pytest.mark.parametrize("names", [("a\nb", "C", "n"), ("G@@a", "C_", "n"), ("G@@a", "C", "n#")])
def test_names_are_checked_together(names: tuple[str, str, str]) -> None:
    keys.check_names("G@@a", "C", "n")
    with pytest.raises(InvalidParam):
        keys.check_names(*names)


@pytest.mark.parametrize("ip", ["1.2.3.4", "010.001.002.003", "1.2.772", "1.131844", "16909060", "255.255.255.025"])
def test_an_address_may_have_as_many_numbers_as_java_reads(ip: str) -> None:
    keys.check_ip(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "1.2.3.256",
        "256.1.2.3",
        "1.2.3.4.5",
        "1.2.65536",
        "1..2",
        "1.2.3.",
        "4294967296",
        "0000000000000001",
        "255.255.255.0255",
    ],
)
def test_digits_and_dots_that_java_does_not_read_are_refused(ip: str) -> None:
    with pytest.raises(InvalidParam, match="IPv4 address"):
        keys.check_ip(ip)


def test_an_instance_exceeds_the_estimate_by_names_and_escapes_alone() -> None:
    """Thrice the address and the cluster, the application, and the JSON of the metadata, less what is included."""
    plain = {"a": "x" * 999}
    assert keys.surplus_bytes(1_000, plain, "10.0.0.1", "DEFAULT", "shop") == 0
    assert keys.surplus_bytes(0, None, "h" * 100, "c" * 50, "a" * 30) == 3 * 150 + 30 - keys.USUAL_BYTES
    assert keys.surplus_bytes(0, None, "名" * 100, "c" * 50, None) == 3 * 350 - keys.USUAL_BYTES
    escaped = {"a": "\0" * 400}  # six bytes each, and the braces, quotes and colon
    size = 401
    assert keys.surplus_bytes(size, escaped, "h", "c", "") == 6 + 2_400 + 8 - size * 5 // 4 - keys.USUAL_BYTES
