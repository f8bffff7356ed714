"""The place and the sentence of an event, from the fields of its line."""

import pytest

from app.operator.event_words import Address, place_of, sentence

KEY = "public/g@@s/1700000000000_10.0.0.9_40000"


@pytest.mark.parametrize(
    ("after", "instances"),
    [
        ([{"ip": "10.0.0.1", "port": 80, "cluster": "c"}], (Address("10.0.0.1", 80, "c"),)),
        (["10.0.0.1:80", "[fd00::1]:81"], (Address("10.0.0.1", 80, "DEFAULT"), Address("fd00::1", 81, "DEFAULT"))),
        (["17181 bytes, left out", ":80", "10.0.0.1:", 7], ()),
        ("10.0.0.1:80", ()),
    ],
)
def test_the_instances_of_a_client_over_grpc_are_those_of_the_values(
    after: object, instances: tuple[Address, ...]
) -> None:
    place = place_of("instance.register", KEY, None, after)
    assert (place.namespace, place.service, place.instances) == ("public", "g@@s", instances)


def test_a_sentence_names_the_first_instances_of_a_long_list() -> None:
    after = [f"10.0.0.{number}:80" for number in range(40)]
    place = place_of("instance.register", KEY, None, after)
    said = sentence("instance.register", KEY, place, None, after)
    assert said == "10.0.0.0:80, 10.0.0.1:80, 10.0.0.2:80 and 37 more registered"
