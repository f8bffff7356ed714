"""What a client's registration becomes, and which ids and metadata clients may have."""

from itertools import repeat

import pytest

from app.naming.clients.client_model import (
    CLIENT_ID_CHARS_MAX,
    RESERVED_METADATA,
    Client,
    ClientInfo,
    info_of,
    is_client_id,
)
from app.naming.clients.own_clients import check_legal, instance_numbers, instance_of, plain_metadata
from app.naming.model.keys import INSTANCE_ID_CHARS_MAX
from app.naming.model.nacos_errors import InvalidParam
from app.naming.registry.operations import RegisterInstance, Shared
from distro.model.types import Version

ONE = RegisterInstance("G@@orders", "10.0.0.1", 80)


@pytest.mark.parametrize(
    ("client_id", "ip", "port"),
    [
        ("1700000000000_my_host_51234", "my_host", 51234),
        ("1700000000000_10.1.2.3_99999", "10.1.2.3", 99999),
        ("1700000000000_10.1.2.3_\u0661", "10.1.2.3", 0),
        ("2001:db8::1:80#true", "2001:db8::1", 80),
        ("10.0.0.1:80#x#true", "10.0.0.1", 80),
    ],
)
def test_the_address_in_an_id(client_id: str, ip: str, port: int) -> None:
    assert info_of(client_id) == ClientInfo(client_id, ip, port, "", "")


@pytest.mark.parametrize(("revision", "kept"), [(0, 0), (7, 7), (4_095, 4_095), (4_101, 5)])
@pytest.mark.parametrize(("client_id", "by_client"), [("", 0), ("c1", 148), ("z" * 10, 196)])
def test_numbers_differ_by_time_then_client_then_revision(
    client_id: str, by_client: int, revision: int, kept: int
) -> None:
    """Their lower bits are 10 of the client's and 12 of the revision's."""
    numbers = instance_numbers(client_id, revision, 1_700_000_000_000)
    first = next(numbers)
    assert first >> 22 == 1_700_000_000_000
    assert (first >> 12) % 1_024 == by_client
    assert first % 4_096 == kept
    assert [next(numbers), next(numbers)] == [first + 1, first + 2]


def test_an_id_that_a_client_asks_for_has_a_length() -> None:
    longest = "i" * INSTANCE_ID_CHARS_MAX
    assert instance_of(ONE._replace(instance_id=longest), repeat(0), Shared()).instance_id == longest
    with pytest.raises(InvalidParam, match="'instanceId'"):
        instance_of(ONE._replace(instance_id=longest + "i"), repeat(0), Shared())


@pytest.mark.parametrize(("interval", "legal"), [("1000", True), ("1001", False)])
def test_an_interval_is_within_both_times_where_all_are_given(interval: str, legal: bool) -> None:
    command = ONE._replace(
        metadata={
            "preserved.heart.beat.interval": interval,
            "preserved.heart.beat.timeout": "2000",
            "preserved.ip.delete.timeout": "1000",
        }
    )
    if legal:
        check_legal(command)
    else:
        with pytest.raises(InvalidParam, match="heart beat interval"):
            check_legal(command)


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("x", True),
        ("x" * CLIENT_ID_CHARS_MAX, True),
        ("x" * (CLIENT_ID_CHARS_MAX + 1), False),
        ("", False),
        ("a,b", False),
    ],
)
def test_what_can_be_an_id(text: str, is_id: bool) -> None:
    assert is_client_id(text) is is_id


def test_metadata_without_nulls_and_names_of_members() -> None:
    plain = {"zone": "a"}
    assert plain_metadata(plain) is plain, "no copy of what is nearly all metadata"
    assert plain_metadata(None) == {}
    assert plain_metadata({"zone": "a", "none": None}) == plain
    for name in RESERVED_METADATA:
        assert plain_metadata({"zone": "a", name: "1"}) == plain


def test_a_new_client_came_from_nowhere_and_publishes_nothing() -> None:
    client = Client(ClientInfo("c1", "", 0, "", ""), native=True, now_ms=5, version=Version(1, 0, "m:1~1"))
    assert (client.client_id, client.renewed_ms) == ("c1", 5)
    assert (client.came_from, client.ended, client.ended_ms) == ("", False, 0)
    assert (client.published, client.subscribed, client.instances, client.revision) == ({}, {}, 0, 0)
