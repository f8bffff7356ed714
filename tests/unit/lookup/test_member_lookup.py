from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.settings_keys import SettingError
from app.members import member_lookup
from app.members.last_list import LastList
from app.members.member_lookup import LOOKS, LOOKS_OF_MOST, MemberLookup
from app.members.member_sources import NoListError
from app.members.own_entry import OwnEntry
from tests.support.processes import eventually

SELF, ONE, TWO, THREE = (f"10.0.0.{number}:8848" for number in range(1, 5))


class Source:
    """Gives what the test put in; a text is the reason why there is no list."""

    interval_s = 0.01

    def __init__(self, answer: tuple[str, ...] | str | None = None) -> None:
        self.answer = answer
        self.looks = 0
        self.closed = False
        self.during: Callable[[], None] = lambda: None

    def read(self) -> tuple[str, ...] | None:
        self.looks += 1
        self.during()
        if isinstance(self.answer, str):
            raise NoListError(self.answer)
        return self.answer

    def close(self) -> None:
        self.closed = True


class Looked:
    """A look-up over sources of the test, and the lists that it handed on."""

    def __init__(self, tmp_path: Path, kind: str = "dns", members: tuple[str, ...] = (SELF, ONE, TWO)) -> None:
        self.sources = {name: Source(members) for name in ("file", "dns", "address-server")}
        self.taken: list[tuple[str, ...]] = []
        self.refused: str = ""
        self.last = LastList(tmp_path)
        self.lookup = MemberLookup(
            kind, self.sources.__getitem__, members, OwnEntry(SELF, "10.0.0.1"), SELF, self.check, self.last
        )
        self.lookup._take = self.taken.append
        self.source = self.sources[kind]

    def check(self, members: tuple[str, ...]) -> None:
        if self.refused in members:
            raise SettingError(f"not {self.refused}")

    def look(self, answer: tuple[str, ...] | str | None) -> bool:
        self.source.answer = answer
        return self.lookup.look()


@pytest.fixture
def looked(tmp_path: Path) -> Looked:
    return Looked(tmp_path)


def test_a_new_member_is_handed_on_at_once(looked: Looked) -> None:
    assert looked.look((SELF, ONE, TWO, THREE))
    assert looked.taken == [(SELF, ONE, TWO, THREE)]
    assert looked.last.read() == (SELF, ONE, TWO, THREE)
    assert looked.look((SELF, ONE, TWO, THREE))
    assert len(looked.taken) == 1, "the same list is no change"


def test_the_list_at_the_start_is_kept_when_a_look_has_found_it(looked: Looked) -> None:
    """It came from the first answer, and need never change."""
    assert looked.last.read() == ()
    assert looked.look((SELF, ONE, TWO))
    assert (looked.taken, looked.last.read()) == ([], (SELF, ONE, TWO))


def test_a_list_that_fails_changes_nothing(looked: Looked, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        assert not looked.look("the name service is away")
    assert (looked.taken, looked.lookup.failure) == ([], "the name service is away")
    assert (looked.lookup.stats.member_lists_failed, looked.lookup.stats.member_lookup_failing) == (50, 50)
    assert caplog.text.count("the name service is away") == 1
    looked.look((SELF, ONE, TWO))
    assert (looked.lookup.failure, looked.lookup.stats.member_lookup_failing) == ("", 0)
    assert "is found again" in caplog.text


def test_a_name_that_shrinks_for_a_moment(looked: Looked) -> None:
    for _ in range(5):
        for _ in range(LOOKS_OF_MOST - 1):
            looked.look((SELF,))
        assert looked.lookup.stats.members_held == 2
        looked.look((SELF, ONE, TWO))
    assert looked.taken == []


def test_members_that_are_gone_for_good(looked: Looked) -> None:
    for _ in range(LOOKS):
        looked.look((SELF, ONE))
    assert [set(one) for one in looked.taken] == [{SELF, ONE}]
    for _ in range(LOOKS_OF_MOST):
        looked.look((SELF,))
    assert [set(one) for one in looked.taken] == [{SELF, ONE}, {SELF}]


def test_a_list_of_another_cluster_is_none(looked: Looked) -> None:
    """Such as one word that a misled server says, or the address of a provider's page for names that do not exist."""
    for _ in range(20):
        assert not looked.look(("ok:8848",))
    assert looked.taken == []
    assert looked.look((SELF, THREE)), "this node itself is in it"


def test_a_file_is_the_operators_own_word(tmp_path: Path) -> None:
    looked = Looked(tmp_path, "file")
    for _ in range(LOOKS_OF_MOST):
        looked.look((THREE,))
    assert set(looked.taken[-1]) == {SELF, THREE}
    assert looked.last.read() == (), "a file is there at the next start"


def test_a_list_that_this_node_may_not_take(looked: Looked) -> None:
    looked.refused = THREE
    assert not looked.look((SELF, ONE, TWO, THREE))
    assert (looked.taken, looked.lookup.failure) == ([], f"not {THREE}")


def test_a_source_that_is_to_be_asked_again(looked: Looked) -> None:
    assert not looked.look(None)
    assert looked.lookup.stats.member_lists_failed == 0


class TestSwitch:
    def test_to_another_source_and_back(self, looked: Looked) -> None:
        looked.sources["file"].answer = (SELF, ONE, TWO, THREE)
        looked.lookup.switch("file")
        assert (looked.lookup.kind, looked.sources["dns"].closed) == ("file", True)
        assert looked.taken == [(SELF, ONE, TWO, THREE)]
        looked.lookup.switch("dns")
        assert looked.lookup.kind == "dns"
        for _ in range(LOOKS):
            looked.lookup.look()
        assert set(looked.taken[-1]) == {SELF, ONE, TWO}

    def test_the_same_kind_again_does_nothing(self, looked: Looked) -> None:
        looked.lookup.switch("dns")
        assert looked.source.looks == 0

    @pytest.mark.parametrize("answer", ["it does not answer", None, ("ok:1",)])
    def test_one_that_gives_no_list_is_refused(self, looked: Looked, answer: tuple[str, ...] | str | None) -> None:
        looked.sources["address-server"].answer = answer
        with pytest.raises(NoListError):
            looked.lookup.switch("address-server")
        assert looked.lookup.kind == "dns"
        assert looked.taken == []
        assert (looked.sources["address-server"].closed, looked.source.closed) == (True, False)
        assert looked.look((SELF, ONE, TWO, THREE))

    def test_the_answer_of_the_source_before_does_not_count(self, looked: Looked) -> None:
        looked.sources["file"].answer = (SELF, ONE, TWO)
        looked.source.during = lambda: looked.lookup.switch("file")
        looked.look((SELF, ONE, TWO, THREE))
        assert looked.taken == []


class TestThread:
    def test_it_looks_by_itself_until_it_is_closed(self, looked: Looked) -> None:
        taken: list[tuple[str, ...]] = []
        looked.lookup.start(taken.append)
        assert taken == [(SELF, ONE, TWO)]
        looked.source.answer = (SELF, ONE, TWO, THREE)
        eventually(lambda: taken[-1] == (SELF, ONE, TWO, THREE))
        looked.lookup.close()
        assert not looked.lookup._thread.is_alive()
        looked.look((SELF, ONE, TWO, THREE, "10.0.0.9:8848"))
        assert len(taken) == 2

    def test_without_any_list_it_waits_for_a_first_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(member_lookup, "FIRST_RETRY_S", 0.01)
        looked = Looked(tmp_path, members=())
        looked.source.answer = "the name service is away"
        taken: list[tuple[str, ...]] = []
        looked.lookup.start(taken.append)
        eventually(lambda: looked.source.looks > 3)
        assert (taken, looked.lookup.is_known) == ([], False)
        looked.source.answer = (ONE,)
        eventually(lambda: taken == [(ONE, SELF)])
        looked.lookup.close()
        assert not looked.lookup._thread.is_alive()

    def test_a_look_that_raises_is_not_the_last(self, looked: Looked) -> None:
        def fail() -> None:
            if looked.source.looks < 3:
                raise RuntimeError("unforeseen")

        looked.source.during = fail
        looked.lookup.start(lambda _members: None)
        eventually(lambda: looked.source.looks > 4)
        looked.lookup.close()
        assert not looked.lookup._thread.is_alive()
