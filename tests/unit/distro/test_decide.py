"""The rules by which a received datum is taken, merged, fetched or refused."""

import pytest

from distro.receive import Standing, decide
from distro.types import NO_VERSION, Verdict, Version

A5, A6 = Version(5, 1, "a~1"), Version(5, 2, "a~1")
B6 = Version(6, 0, "b~1")


@pytest.mark.parametrize(
    ("held", "incoming", "is_owner", "fetched", "verdict"),
    [
        (None, A5, False, False, Verdict.APPLY),
        (None, A5, True, False, Verdict.APPLY),
        (A5, A5, False, False, Verdict.EQUAL),
        (A5, A5, True, False, Verdict.EQUAL),
        (A5, A6, False, False, Verdict.APPLY),
        (A6, A5, False, False, Verdict.REFUSE),
        (A6, B6, False, False, Verdict.SUCCEED),
        (B6, A6, False, False, Verdict.REFUSE),
        (A6, B6, True, False, Verdict.FETCH),
        (B6, A6, True, False, Verdict.FETCH),
        (A6, B6, True, True, Verdict.MERGE),
        (B6, A6, True, True, Verdict.MERGE),
    ],
)
def test_versions_decide(
    held: Version | None, incoming: Version, is_owner: bool, fetched: bool, verdict: Verdict
) -> None:
    assert decide(Standing(held, incoming, is_owner, sender_owns=True, fetched=fetched)) is verdict


@pytest.mark.parametrize(
    ("held", "is_owner", "sender_owns", "verdict"),
    [
        (None, False, False, Verdict.APPLY),
        (A5, False, True, Verdict.APPLY),
        (A5, False, False, Verdict.REFUSE),
        (A5, True, False, Verdict.MERGE),
        (None, True, False, Verdict.MERGE),
    ],
)
def test_what_has_no_version_is_taken_from_its_owner(
    held: Version | None, is_owner: bool, sender_owns: bool, verdict: Verdict
) -> None:
    assert decide(Standing(held, NO_VERSION, is_owner, sender_owns, fetched=False)) is verdict
