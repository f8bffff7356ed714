"""Versions: their order, what follows what, and their text."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distro.model.errors import CodecError
from distro.model.types import NO_VERSION, Datum, Version
from distro.receive.resolve import ACCEPTED_MAX, ASKED_HEAD_ROOM, VersionCheck
from tests.support.named_store import NamedStore, component
from tests.support.receiver_view import StubView

WRITERS = st.sampled_from(["10.0.0.1:8848~1", "10.0.0.1:8848~2", "10.0.0.2:8848~1"])
VERSIONS = st.builds(Version, st.integers(1, 10**6), st.integers(0, 10**6), WRITERS)


@given(VERSIONS, WRITERS)
def test_the_next_version_is_above_and_by_its_writer(version: Version, writer: str) -> None:
    after = version.next(writer)
    assert after > version > NO_VERSION
    assert after.writer == writer
    assert (after.epoch > version.epoch) == (writer != version.writer), "another writer begins an epoch"


@given(VERSIONS, VERSIONS, WRITERS)
def test_what_follows_the_higher_one_is_above_both(one: Version, other: Version, writer: str) -> None:
    after = max(one, other).next(writer)
    assert after > one
    assert after > other


@given(st.lists(VERSIONS, max_size=6))
def test_epochs_count_before_counters_and_those_before_writers(versions: list[Version]) -> None:
    assert sorted(versions) == sorted(versions, key=lambda one: (one.epoch, one.counter, one.writer))


@given(VERSIONS)
def test_the_text_names_the_version(version: Version) -> None:
    assert Version.from_text(version.to_text()) == version


@given(st.one_of(st.none(), st.integers(), st.text(), st.from_regex(r"[0-9]{0,25}\.[0-9٣]{0,3}\.?.{0,3}")))
def test_any_other_text_is_a_codec_error_or_names_a_version(text: object) -> None:
    try:
        version = Version.from_text(text)
    except CodecError:
        return
    assert Version.from_text(version.to_text()) == version


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.", ".2.a", "a.2.b", "1.-2.a", "٣.1.a", "1" * 30 + ".1.a", 7, None]
)
def test_what_is_no_version_is_refused(text: object) -> None:
    with pytest.raises(CodecError):
        Version.from_text(text)


TEXTS = st.one_of(
    VERSIONS.map(Version.to_text),
    st.from_regex(r"(1|01|2)?\.[0-9٣+-]{0,17}\.10\.0\.0\.[12]:8848~[12]?"),
    st.text(max_size=3),
    st.none(),
)


@given(st.one_of(st.just(Version(1, 5, "10.0.0.1:8848~1")), VERSIONS, st.just(NO_VERSION)), TEXTS)
def test_beside_another_version_each_text_is_read_alike(known: Version, text: object) -> None:
    def read(by: Callable[[object], Version]) -> Version | str:
        try:
            return by(text)
        except CodecError as error:
            return str(error)

    assert read(known.beside) == read(Version.from_text)


@pytest.mark.parametrize("text", ["0.5.", "0.5.x", "0..x", ".5.x", "0.٣.x", "0." + "9" * 16 + ".x", 5])
@pytest.mark.parametrize("known", [NO_VERSION, Version(0, 0, "x")])
def test_beside_no_version_nothing_is_taken_for_one(known: Version, text: object) -> None:
    if text == "0.5.x":
        assert known.beside(text) == Version(0, 5, "x")
    else:
        with pytest.raises(CodecError):
            known.beside(text)


class Listening:
    """A member that knows one version, and what it takes."""

    def __init__(self, known: Version) -> None:
        store = NamedStore()
        store.put("known", known)
        self._check = VersionCheck("10.0.0.9:8848~1", {"t": component(store)}, StubView())

    def takes(self, version: Version, sender: str, *, fetched: bool = False) -> bool:
        try:
            self._check.check("t", Datum("k", version, None), sender, fetched=fetched)
        except CodecError:
            return False
        self._check.accept(version)
        return True


NUMBERS = st.one_of(st.integers(0, 2**22), st.integers(0, 2**30), st.integers(0, 2**53))
FAR = st.builds(Version, NUMBERS, NUMBERS, WRITERS)
SENDERS = st.sampled_from(["10.0.0.1:8848", "10.0.0.2:8848"])
LOW = st.builds(Version, st.integers(1, ACCEPTED_MAX // 2), st.integers(0, ACCEPTED_MAX // 2), WRITERS)


@given(LOW, st.lists(st.tuples(FAR, SENDERS, st.booleans()), max_size=4))
def test_what_follows_a_version_that_one_member_takes_another_takes_in_the_end(
    known: Version, sent: list[tuple[Version, str, bool]]
) -> None:
    """Whatever the former took before: the other fetches what follows once for each, at most."""
    one, other = Listening(known), Listening(known)
    taken = [version for version, sender, fetched in sent if one.takes(version, sender, fetched=fetched)]
    for version in taken[-1:]:
        claim = max(taken).next("10.0.0.3:8848~1")
        for following in (version.next(version.writer), claim):
            member = following.writer.partition("~")[0]
            tries = [other.takes(following, member, fetched=True) for _ in range(len(sent) + 2)]
            assert tries[-1], (following, known)
            assert following.epoch - known.epoch <= (len(sent) + 1) * ASKED_HEAD_ROOM


@given(LOW, FAR, SENDERS, st.booleans())
def test_a_version_that_is_taken_leaves_room_for_those_after_it(
    known: Version, version: Version, sender: str, fetched: bool
) -> None:
    if Listening(known).takes(version, sender, fetched=fetched):
        for following in (version.next(version.writer), version.next("10.0.0.3:8848~1")):
            assert Version.from_text(following.to_text()) == following
