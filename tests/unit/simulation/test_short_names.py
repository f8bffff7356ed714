"""Members are letters in a transcript; keys, versions and types are short, and nothing else changes."""

import pytest

from app.naming.model.keys import datum_key
from app.naming.records.record_keys import persistent_key
from app.replication.client_type import CLIENTS
from app.replication.instance_list_type import INSTANCE_LIST
from app.replication.record_type import RECORDS
from app.tools.simulation.transcript.lines import address_of, letter_of, short

SERVICE = "DEFAULT_GROUP@@web"
INSTANCE = "10.1.0.3:8080:unknown:DEFAULT"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (datum_key("public", SERVICE), "iplist web"),
        (persistent_key("public", SERVICE, INSTANCE), "record web 10.1.0.3:8080"),
        ("3.7.10.0.0.1:8848~1 over 2.0.10.0.0.2:8848~12", "3.7.A over 2.0.B12"),
        (f"a round of {INSTANCE_LIST}: one", "a round of instance lists: one"),
        (f"{RECORDS}, {CLIENTS}", "records, clients"),
        (f"{INSTANCE} of 10.0.0.3:8848", "10.1.0.3:8080 of C"),
        ("client-3 gets 503", "client-3 gets 503"),
    ],
)
def test_short(text: str, expected: str) -> None:
    assert short(text) == expected


def test_letters_are_addresses() -> None:
    assert [address_of(letter_of(f"10.0.0.{number}:8848")) for number in (1, 9)] == ["10.0.0.1:8848", "10.0.0.9:8848"]
    assert address_of("client-3") == letter_of("client-3") == "client-3"
