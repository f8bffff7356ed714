from hypothesis import given
from hypothesis import strategies as st

from app.members.member_lookup import LOOKS, LOOKS_OF_MOST, ListCheck

SELF, ONE, TWO, THREE, NEW = (f"10.0.0.{number}:8848" for number in range(5))


def test_who_comes_is_taken_at_once() -> None:
    check = ListCheck((SELF, ONE), SELF)
    assert check.offer((SELF, ONE, NEW))
    assert check.members == (SELF, ONE, NEW)
    assert not check.offer((NEW, ONE, SELF)), "another order is no other list"


def test_who_is_gone_is_dropped_when_the_next_look_agrees() -> None:
    check = ListCheck((SELF, ONE, TWO, THREE), SELF)
    assert not check.offer((SELF, ONE, TWO))
    assert (check.held, set(check.members)) == (1, {SELF, ONE, TWO, THREE})
    assert check.offer((SELF, ONE, TWO))
    assert (check.held, set(check.members)) == (0, {SELF, ONE, TWO})


def test_most_together_need_more_looks() -> None:
    check = ListCheck((SELF, ONE, TWO, THREE), SELF)
    changes = [check.offer((SELF, ONE)) for _ in range(LOOKS_OF_MOST)]
    assert changes == [False] * (LOOKS_OF_MOST - 1) + [True]
    assert set(check.members) == {SELF, ONE}


def test_one_answer_with_the_member_begins_the_count_anew() -> None:
    check = ListCheck((SELF, ONE, TWO, THREE), SELF)
    for _ in range(10):
        assert not check.offer((SELF, ONE, TWO))
        assert not check.offer((SELF, ONE, TWO, THREE))


def test_who_comes_does_not_wait_for_who_is_held() -> None:
    """Pods that were all made anew: their new addresses count at once, the old ones for some looks more."""
    check = ListCheck((SELF, ONE, TWO), SELF)
    assert check.offer((SELF, NEW))
    assert set(check.members) == {SELF, ONE, TWO, NEW}
    for _ in range(LOOKS_OF_MOST):
        check.offer((SELF, NEW))
    assert set(check.members) == {SELF, NEW}


def test_a_first_list_is_taken_as_it_is() -> None:
    check = ListCheck((), SELF)
    assert check.offer((SELF, ONE))
    assert check.members == (SELF, ONE)


@given(st.lists(st.sets(st.sampled_from([ONE, TWO, THREE, NEW])), max_size=12))
def test_nobody_is_dropped_who_was_in_one_of_the_last_looks(looks: list[set[str]]) -> None:
    check = ListCheck((SELF, ONE, TWO, THREE), SELF)
    seen = [{SELF, ONE, TWO, THREE}]
    for look in looks:
        check.offer((SELF, *sorted(look)))
        seen.append(look | {SELF})
        recent = set[str]().union(*seen[-LOOKS:])
        assert recent <= set(check.members)
        assert set(check.members) <= set[str]().union(*seen[-LOOKS_OF_MOST:])
        assert SELF in check.members
