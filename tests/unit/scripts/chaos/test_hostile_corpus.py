"""What is sent in the name of members: each call can be made, and is as forged and as large as it says."""

import gzip
import json

import pytest

from app.naming.records.record_keys import namespace_key
from distro.model.errors import CodecError
from distro.model.types import Version
from distro.receive.resolve import HEAD_ROOM
from distro.wire.http_agent import MEMBER_HEADER
from scripts.chaos.hostile_corpus import (
    BOMB_BYTES,
    BOMBS,
    CHECKSUM,
    DATUM,
    KEYS,
    STEPS,
    Scene,
    bombs,
    datum,
    forged_versions,
    instance,
    list_key,
    raised,
    reports,
    values,
    versions,
)

ONE, TWO, THREE = (f"10.0.0.{number}:8848" for number in (1, 2, 3))
KNOWN = list_key("known")
NAMESPACE = namespace_key("known")
SCENE = Scene(
    [ONE, TWO, THREE],
    {KNOWN: datum(KNOWN, f"3.7.{ONE}~55", [instance("known", f"3.7.{ONE}~55")])},
    {NAMESPACE: {"key": NAMESPACE, "version": f"1.2.{ONE}~55", "changed": f"1.2.{ONE}~55", "value": {}}},
)


@pytest.mark.parametrize("shots", [versions, reports, values])
def test_a_group_names_members_and_has_headers_that_can_be_sent(shots) -> None:  # type: ignore[no-untyped-def]
    sent = list(shots(SCENE, ONE, TWO))
    assert len(sent) > 10
    assert all("\n" not in value for shot in sent for value in shot.headers.values())
    assert all("\n" not in shot.path and " " not in shot.path for shot in sent)


def test_no_forged_version_may_count() -> None:
    for text in forged_versions(ONE, TWO):
        try:
            version = Version.from_text(text)
        except CodecError:
            continue
        high = max(version.epoch, version.counter) > HEAD_ROOM
        assert high or not version.writer.startswith((ONE, TWO)), text[:100]


def test_a_member_is_sent_what_members_wrote_under_higher_versions() -> None:
    assert raised(f"3.7.{ONE}~55", 1, 1_000_000) == f"4.1000007.{ONE}~55"
    for target, sender in ((ONE, TWO), (TWO, ONE), (TWO, THREE)):
        bodies = b"".join(shot.body for shot in versions(SCENE, target, sender))
        assert raised(f"3.7.{ONE}~55", *STEPS[0]).encode() in bodies
        assert raised(f"1.2.{ONE}~55", *STEPS[1]).encode() in bodies


def test_bombs_are_small_until_they_are_unpacked() -> None:
    kinds = bombs(TWO)
    assert tuple(kinds) == BOMBS
    text, nested, blank = kinds["unpacking"]
    keys, lists, compared = kinds["keys"]
    assert [shot.path.partition("?")[0] for shot in (text, lists, compared)] == [DATUM, DATUM, CHECKSUM]
    assert max(len(shot.body) for shot in (text, nested, blank)) < 64_000
    assert min(len(gzip.decompress(shot.body)) for shot in (text, blank)) >= BOMB_BYTES
    assert len(json.loads(gzip.decompress(keys.body))) == len(json.loads(gzip.decompress(lists.body))) == KEYS
    assert gzip.decompress(nested.body).count(b"[") == 1 << 20
    assert all(shot.headers[MEMBER_HEADER] == TWO for shots in kinds.values() for shot in shots)
