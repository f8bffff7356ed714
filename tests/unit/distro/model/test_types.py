"""The bounds of a version's text (R10), exactly."""

import pytest

from distro.model.errors import CodecError
from distro.model.types import VERSION_DIGITS_MAX, VERSION_NUMBER_MAX, WRITER_CHARS_MAX, Version

PADDED = "1".zfill(VERSION_DIGITS_MAX)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (f"{VERSION_NUMBER_MAX}.{VERSION_NUMBER_MAX}.w", Version(VERSION_NUMBER_MAX, VERSION_NUMBER_MAX, "w")),
        (f"{PADDED}.{PADDED}.w", Version(1, 1, "w")),
        (f"1.2.{'w' * WRITER_CHARS_MAX}", Version(1, 2, "w" * WRITER_CHARS_MAX)),
        ("1.2.[::1]:8848~a.b", Version(1, 2, "[::1]:8848~a.b")),
    ],
)
def test_a_version_up_to_its_bounds_is_read(text: str, version: Version) -> None:
    assert Version.from_text(text) == version


@pytest.mark.parametrize(
    "text",
    [
        f"{VERSION_NUMBER_MAX + 1}.1.w",
        f"1.{VERSION_NUMBER_MAX + 1}.w",
        f"0{PADDED}.1.w",
        f"1.0{PADDED}.w",
        "9" * 5_000 + ".1.w",
        f"1.2.{'w' * (WRITER_CHARS_MAX + 1)}",
        "1.2.a\nb",
    ],
    ids=["epoch", "counter", "digits of the epoch", "digits of the counter", "no int", "writer", "line break"],
)
def test_a_version_beyond_a_bound_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        Version.from_text(text)
