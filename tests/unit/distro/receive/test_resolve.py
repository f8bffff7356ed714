"""The rules by which a received datum is taken, merged, fetched or refused."""

import pytest

from distro.model.types import NO_VERSION, Resolution, Version
from distro.receive.resolve import KeyVersions, resolve

A5, A6 = Version(5, 1, "a~1"), Version(5, 2, "a~1")
B6 = Version(6, 0, "b~1")


@pytest.mark.parametrize(
    ("stored", "received", "is_owner", "fetched", "resolution"),
    [
        (None, A5, False, False, Resolution.APPLY),
        (None, A5, True, False, Resolution.APPLY),
        (A5, A5, False, False, Resolution.EQUAL),
        (A5, A5, True, False, Resolution.EQUAL),
        (A5, A6, False, False, Resolution.APPLY),
        (A6, A5, False, False, Resolution.REFUSE),
        (A6, B6, False, False, Resolution.TAKE_OVER),
        (B6, A6, False, False, Resolution.REFUSE),
        (A6, B6, True, False, Resolution.FETCH),
        (B6, A6, True, False, Resolution.FETCH),
        (A6, B6, True, True, Resolution.MERGE),
        (B6, A6, True, True, Resolution.MERGE),
    ],
)
def test_versions_decide(
    stored: Version | None, received: Version, is_owner: bool, fetched: bool, resolution: Resolution
) -> None:
    assert (
        resolve(KeyVersions(stored, received, is_owner, sender_is_owner=True, fetched=fetched)).resolution is resolution
    )


@pytest.mark.parametrize(
    ("stored", "is_owner", "sender_is_owner", "resolution"),
    [
        (None, False, False, Resolution.APPLY),
        (A5, False, True, Resolution.APPLY),
        (A5, False, False, Resolution.REFUSE),
        (A5, True, False, Resolution.MERGE),
        (None, True, False, Resolution.MERGE),
    ],
)
def test_what_has_no_version_is_taken_from_its_owner(
    stored: Version | None, is_owner: bool, sender_is_owner: bool, resolution: Resolution
) -> None:
    assert resolve(KeyVersions(stored, NO_VERSION, is_owner, sender_is_owner, fetched=False)).resolution is resolution
