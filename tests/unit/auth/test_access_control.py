"""Whose a token is, and for how long."""

import string
from contextlib import suppress

import jwt
import pytest

from app.auth.access_control import ENDED_HERE_MAX
from app.auth.access_rules import LOGGED_IN, MEMBERS, READ, WRITE, admin, naming
from app.auth.login_limits import CLEAN, OF_USER_MAX, LoginPutOff, LoginWait
from app.auth.refusals import NOT_PERMITTED, TOKEN_INVALID, UNKNOWN_USER, AccessDenied, TooManyLogins
from app.auth.tokens import id_of
from app.auth.user_rights import Resource
from app.naming.records.user_records import ENDED_MAX
from tests.support.auth import ADMIN, ADMIN_PASSWORD, PASSWORD, add_user, node_with_users, token_of
from tests.support.fake_node import FakeNode

IP = "10.0.0.1"
ORDERS = Resource.of_service("dev", "g@@orders")


@pytest.fixture
def node() -> FakeNode:
    return node_with_users()


def test_a_login_gives_a_session_whose_token_is_taken(node: FakeNode) -> None:
    session = node.access.log_in(ADMIN, ADMIN_PASSWORD, IP)
    assert node.access.session(node.access.token_of(session)).user == ADMIN
    assert node.access.stats.logins == 1


@pytest.mark.parametrize(("name", "password"), [(ADMIN, "wrong wrong"), ("nobody", ADMIN_PASSWORD), ("", "")])
def test_a_wrong_login_says_nothing_of_what_was_wrong(node: FakeNode, name: str, password: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        node.access.log_in(name, password, IP)
    assert refused.value.text == UNKNOWN_USER


def guess(node: FakeNode, name: str, count: int) -> None:
    """Wrong passwords from many addresses."""
    for number in range(count):
        with pytest.raises(AccessDenied):
            node.access.log_in(name, "wrong wrong", f"10.0.0.{number}")


@pytest.mark.parametrize("name", [ADMIN, "nobody"])
def test_after_too_many_wrong_ones_a_try_is_looked_at_when_it_has_waited(node: FakeNode, name: str) -> None:
    guess(node, name, OF_USER_MAX)
    wait = LoginWait()
    with pytest.raises(LoginPutOff):
        node.access.log_in(name, ADMIN_PASSWORD, "10.0.1.1", wait)
    assert node.access.stats.logins_waited == 1
    if name == ADMIN:
        assert node.access.log_in(name, ADMIN_PASSWORD, "10.0.1.1", wait).user == ADMIN
        assert node.access.log_in(name, ADMIN_PASSWORD, "10.0.1.1", LoginWait()).user == ADMIN  # trusted from now on
    else:
        with pytest.raises(AccessDenied, match=UNKNOWN_USER):
            node.access.log_in(name, ADMIN_PASSWORD, "10.0.1.1", wait)


def test_a_caller_that_cannot_come_again_waits_on_its_thread(node: FakeNode) -> None:
    guess(node, ADMIN, OF_USER_MAX)
    assert node.access.log_in(ADMIN, ADMIN_PASSWORD, "10.0.1.1").user == ADMIN


def test_a_call_that_is_not_made_again_gives_its_place_back(node: FakeNode) -> None:
    guess(node, ADMIN, OF_USER_MAX)
    for _ in range(3 * CLEAN.most):
        wait = LoginWait()
        with pytest.raises(LoginPutOff):
            node.access.log_in(ADMIN, ADMIN_PASSWORD, "10.0.1.1", wait)
        node.access.give_up(wait)


def test_a_try_that_finds_all_places_taken_is_put_off(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.access.passwords is not None

    def is_full(*_: object) -> bool:
        raise TooManyLogins("too many logins are under way, please try again", 1)

    with monkeypatch.context() as patched:
        patched.setattr(node.access.passwords, "is_right", is_full)
        wait = LoginWait()
        with pytest.raises(LoginPutOff):
            node.access.log_in(ADMIN, ADMIN_PASSWORD, IP, wait)
        with pytest.raises(TooManyLogins):
            node.access.log_in(ADMIN, ADMIN_PASSWORD, IP)
    assert node.access.log_in(ADMIN, ADMIN_PASSWORD, IP, wait).user == ADMIN


@pytest.mark.parametrize("what", ["password", "tokens", "deleted", "made again"])
def test_a_token_ends_with_the_password_the_user_or_by_a_word(node: FakeNode, what: str) -> None:
    token = add_user(node, "bob")
    assert node.access.session(token).user == "bob"
    assert node.access.passwords is not None
    new_hash = node.access.passwords.hash("quite another")
    match what:
        case "password":
            node.users.set_password("bob", new_hash)
        case "tokens":
            node.users.end_tokens("bob")
        case "deleted":
            node.users.delete("bob")
        case _:
            node.users.delete("bob")
            node.users.create("bob", new_hash)
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)


def test_the_end_of_all_tokens_leaves_the_password(node: FakeNode) -> None:
    add_user(node, "bob")
    node.users.end_tokens("bob")
    assert node.access.log_in("bob", PASSWORD, IP).user == "bob"


def test_a_token_of_real_nacos_ends_with_the_password_too(node: FakeNode) -> None:
    add_user(node, "bob")
    assert node.settings.auth is not None
    now_s, ttl_s = node.wall_ms() // 1_000, node.settings.auth.token_ttl_s

    def made(begin_s: int) -> str:
        return jwt.encode({"sub": "bob", "exp": begin_s + ttl_s}, node.settings.auth.token_key, "HS256")

    assert node.access.session(made(now_s + 1)).user == "bob"
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(made(now_s - 1))


def nacos_token(node: FakeNode, name: str, **claims: object) -> str:
    """A token as real Nacos makes it with the cluster's key: without our own claims."""
    assert node.settings.auth is not None
    return jwt.encode({"sub": name, **claims}, node.settings.auth.token_key, "HS256")


def revoke(node: FakeNode, name: str, what: str) -> None:
    """End a user's tokens in one of the ways there are."""
    assert node.access.passwords is not None
    new_hash = node.access.passwords.hash("quite another")
    match what:
        case "password":
            node.users.set_password(name, new_hash)
        case "tokens":
            node.users.end_tokens(name)
        case _:
            node.users.delete(name)
            node.users.create(name, new_hash)


@pytest.mark.parametrize("what", ["password", "tokens", "made again"])
@pytest.mark.parametrize("shown_before", [False, True])
@pytest.mark.parametrize("says_begin", [False, True])
def test_a_token_of_real_nacos_ends_with_a_revocation(
    node: FakeNode, what: str, shown_before: bool, says_begin: bool
) -> None:
    assert node.settings.auth is not None
    add_user(node, "bob")
    node.later_ms += 3_000
    begin_s, ttl_s = node.wall_ms() // 1_000, node.settings.auth.token_ttl_s
    token = nacos_token(node, "bob", exp=begin_s + ttl_s, **({"iat": begin_s} if says_begin else {}))
    if shown_before:
        assert node.access.session(token).user == "bob"
    revoke(node, "bob", what)
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)
    node.later_ms += 3_600_000
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)
    end_s = node.wall_ms() // 1_000 + ttl_s
    assert node.access.session(nacos_token(node, "bob", exp=end_s)).user == "bob"
    assert node.access.session(nacos_token(node, "bob", exp=end_s, iat=end_s - ttl_s)).user == "bob"


@pytest.mark.parametrize("what", ["password", "tokens"])
def test_a_token_of_a_server_whose_clock_is_ahead_ends_with_a_revocation(node: FakeNode, what: str) -> None:
    add_user(node, "bob")
    ahead_s = node.wall_ms() // 1_000 + 2
    token = nacos_token(node, "bob", iat=ahead_s, exp=ahead_s + 600)
    revoke(node, "bob", what)
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)


@pytest.mark.parametrize("what", ["password", "tokens", "made again"])
def test_a_token_from_the_future_does_not_outlive_a_revocation_before_it_is_shown(node: FakeNode, what: str) -> None:
    """Its server's clock is ahead by half a minute or more: it may have been made before the revocation."""
    add_user(node, "bob")
    node.later_ms += 120_000
    ahead_s = node.wall_ms() // 1_000 + 30
    token = nacos_token(node, "bob", iat=ahead_s, exp=ahead_s + 900)
    assert node.access.session(token).user == "bob"
    revoke(node, "bob", what)
    node.later_ms += 3_000
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(nacos_token(node, "bob", iat=ahead_s, exp=ahead_s + 901))


@pytest.mark.parametrize("claims", [{"iat": 600}, {}, {"iat": "1"}, {"iat": 1.5}, {"iat": None}, {"iat": True}])
def test_a_token_of_real_nacos_whose_begin_is_not_known_is_refused(node: FakeNode, claims: dict[str, object]) -> None:
    """It begins in the far future, by its end if by nothing else, or says what is no time."""
    assert node.settings.auth is not None
    add_user(node, "bob")
    now_s = node.wall_ms() // 1_000
    if claims == {"iat": 600}:
        claims = {"iat": now_s + 600}
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(nacos_token(node, "bob", exp=now_s + node.settings.auth.token_ttl_s + 600, **claims))


@pytest.mark.parametrize("claim", ["nbf", "exp", "iat", "sub", "gen", "jti", "iss", "aud"])
@pytest.mark.parametrize("value", ["1e999", "-1e999", "1" * 400, "-1", "true", "null", "[]", "{}", '"1"', "0.5", "NaN"])
def test_claims_of_any_type_are_read_or_refused(node: FakeNode, claim: str, value: str) -> None:
    """Whoever has the key signs them; no member fails at them."""
    assert node.settings.auth is not None
    add_user(node, "bob")
    now_s = node.wall_ms() // 1_000
    claims = {"sub": '"bob"', "iat": f"{now_s}", "exp": f"{now_s + 600}"} | {claim: value}
    payload = "{" + ",".join(f'"{name}":{text}' for name, text in claims.items()) + "}"
    token = jwt.api_jws.encode(payload.encode(), node.settings.auth.token_key, "HS256")
    with suppress(AccessDenied):
        assert node.access.session(token).user == "bob"


def test_a_revocation_holds_when_the_clock_goes_back(node: FakeNode) -> None:
    add_user(node, "bob")
    began_s = node.wall_ms() // 1_000
    node.later_ms += 60_000
    node.users.end_tokens("bob")
    token = nacos_token(node, "bob", iat=began_s + 30, exp=began_s + 900)
    node.later_ms -= 59_000
    node.users.end_tokens("bob")
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)


def respelt(token: str) -> str:
    """The same token with another last character: two bits of it mean nothing, to some releases of PyJWT too."""
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
    return token[:-1] + letters[letters.index(token[-1]) ^ 1]


def end(node: FakeNode, token: str) -> None:
    """End one token, as its log-out does."""
    session = node.access.session(token)
    node.users.end_token(session.user, session.token_id, session.end_ms // 1_000)


def test_a_log_out_ends_one_token_however_it_is_written(node: FakeNode) -> None:
    token, other = add_user(node, "bob"), token_of(node, "bob")
    assert token != other
    assert id_of(respelt(token)) == id_of(token)
    end(node, token)
    for one in (token, respelt(token)):
        with pytest.raises(AccessDenied, match=TOKEN_INVALID):
            node.access.session(one)
    assert node.access.session(other).user == "bob"
    assert node.access.session(token_of(node, "bob")).user == "bob"


def test_a_log_out_ends_a_token_of_real_nacos(node: FakeNode) -> None:
    add_user(node, "bob")
    token = nacos_token(node, "bob", iat=node.wall_ms() // 1_000 + 1, exp=1 << 50)
    end(node, token)
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(token)


def test_a_log_out_is_refused_at_once_where_it_was_made(node: FakeNode) -> None:
    token, version = add_user(node, "bob"), node.access.table.version
    node.access.end_here(token)
    with pytest.raises(AccessDenied, match=TOKEN_INVALID):
        node.access.session(respelt(token))
    assert node.access.table.version > version, "decisions that were remembered are made anew"
    for _ in range(2 * ENDED_HERE_MAX):
        node.access.end_here(token_of(node, "bob"))
    assert len(node.access._ended_here) == ENDED_HERE_MAX


def test_ended_tokens_are_forgotten_with_their_time_and_bounded(node: FakeNode) -> None:
    tokens = [add_user(node, "bob")] + [token_of(node, "bob") for _ in range(ENDED_MAX)]
    for token in tokens[:-1]:
        end(node, token)
    user = node.access.table.user("bob")
    assert user is not None
    assert len(user.ended) == ENDED_MAX
    end(node, tokens[-1])
    changed = node.access.table.user("bob")
    assert changed is not None
    assert (len(changed.ended), changed.generation == user.generation) == (0, False), "all tokens ended"
    assert all(refused(node, token) for token in tokens)
    end(node, token_of(node, "bob"))
    node.later_ms += 30 * 86_400_000
    last = token_of(node, "bob")
    end(node, last)
    changed = node.access.table.user("bob")
    assert changed is not None
    assert len(changed.ended) == 1


def refused(node: FakeNode, token: str) -> bool:
    try:
        node.access.session(token)
    except AccessDenied:
        return True
    return False


def test_a_new_password_and_the_end_of_all_tokens_need_no_list(node: FakeNode) -> None:
    for change in (lambda: node.users.end_tokens("bob"), lambda: revoke(node, "bob", "password")):
        if node.access.table.user("bob") is None:
            add_user(node, "bob")
        token = token_of(node, "bob")
        end(node, token)
        change()
        user = node.access.table.user("bob")
        assert user is not None
        assert not user.ended
        assert refused(node, token)


def test_what_a_user_may_do(node: FakeNode) -> None:
    session = node.access.session(add_user(node, "bob", ("dev:*:*", "r")))
    node.access.check(session, naming(READ), ORDERS)
    node.access.check(session, LOGGED_IN, None)
    for rule, resource in (
        (naming(WRITE), ORDERS),
        (naming(READ), Resource.of_service("prod", "g@@orders")),
        (naming(READ), None),
        (admin(READ), None),
        (admin(WRITE), None),
        (MEMBERS, None),
    ):
        with pytest.raises(AccessDenied, match=NOT_PERMITTED):
            node.access.check(session, rule, resource)


def test_an_administrator_is_no_member(node: FakeNode) -> None:
    session = node.access.session(token_of(node, ADMIN))
    node.access.check(session, admin(WRITE), None)
    with pytest.raises(AccessDenied, match=NOT_PERMITTED):
        node.access.check(session, MEMBERS, None)


def test_nobody_logs_in_while_users_are_not_asked_for() -> None:
    node = FakeNode()
    with pytest.raises(AccessDenied):
        node.access.log_in(ADMIN, ADMIN_PASSWORD, IP)
    with pytest.raises(AccessDenied):
        node.access.session("auth-is-off")


def test_a_password_that_was_right_is_known_without_waiting_until_it_changes_or_the_caller_guesses(
    node: FakeNode,
) -> None:
    add_user(node, "bob")
    assert node.access.remembered("bob", PASSWORD, IP) is None
    node.access.log_in("bob", PASSWORD, IP)
    session = node.access.remembered("bob", PASSWORD, "10.0.0.9")
    assert session is not None
    assert session.user == "bob"
    assert node.access.remembered("bob", "wrong wrong", IP) is None
    for _ in range(OF_USER_MAX):
        with pytest.raises(AccessDenied):
            node.access.log_in("bob", "wrong wrong", "10.0.0.9")
    assert node.access.remembered("bob", PASSWORD, "10.0.0.9") is None
    assert node.access.remembered("bob", PASSWORD, IP) is not None  # it logged in from here
    assert node.access.passwords is not None
    node.users.set_password("bob", node.access.passwords.hash("quite another"))
    assert node.access.remembered("bob", PASSWORD, IP) is None


def test_the_token_for_other_members_is_made_once_and_ends_with_the_users(node: FakeNode) -> None:
    add_user(node, "bob")
    first = node.access.hop_token(node.access.log_in("bob", PASSWORD, IP))
    assert node.access.hop_token(node.access.log_in("bob", PASSWORD, IP)) == first
    node.users.end_tokens("bob")
    second = node.access.hop_token(node.access.log_in("bob", PASSWORD, IP))
    assert second != first
    assert node.access.session(second).user == "bob"
