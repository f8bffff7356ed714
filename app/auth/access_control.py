"""AccessControl: finds the user of a call, and decides whether that user may make it. Both frontends use it."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from threading import Event

from app.auth.access_rules import AccessRule, Scope
from app.auth.login_limits import Attempt, LoginLimits, LoginPutOff, LoginWait
from app.auth.passwords import Passwords
from app.auth.refusals import (
    AUTH_IS_OFF,
    NOT_PERMITTED,
    TOKEN_EXPIRED,
    TOKEN_INVALID,
    UNKNOWN_USER,
    AccessDenied,
    TooManyLogins,
)
from app.auth.setup_secret import SetupSecret
from app.auth.tokens import AHEAD_MAX_S, Tokens, id_of
from app.auth.user_rights import Resource, Rights
from app.auth.user_table import UserTable
from app.auth.users import CLOCKS_DIFFER_MS
from app.config.auth_settings import AuthSettings
from app.naming.records.user_records import NAME_CHARS_MAX

HOP_TOKEN_MS = 20_000
"""How long a token for forwarded calls is used again. Any token is valid for at least a minute."""
HOP_TOKENS_MAX = 10_000
ENDED_HERE_MAX = 1_024
SESSIONS_MAX = 65_536
"""The most tokens that are remembered: one for each client that logged in."""


@dataclass(frozen=True, slots=True)
class Session:
    """The user of calls, until a time of the wall clock. ``generation``: as in the user's record."""

    user: str
    generation: str
    end_ms: int
    token_id: str = ""
    """The id of its token; empty for a session without a token."""


@dataclass(slots=True)
class AccessStats:
    """Counts since the start."""

    logins: int = 0
    logins_wrong: int = 0
    """Logins with an unknown user or a wrong password."""
    logins_waited: int = 0
    """Logins that had to wait, after too many wrong ones."""
    logins_throttled: int = 0
    """Logins refused because too many wait. Their passwords were not checked."""
    access_unknown: int = 0
    """Calls without a user."""
    access_invalid: int = 0
    """Calls whose token is invalid."""
    access_expired: int = 0
    access_denied: int = 0
    """Calls of users without the permission for them."""


_REASONS = {UNKNOWN_USER: "access_unknown", TOKEN_EXPIRED: "access_expired", NOT_PERMITTED: "access_denied"}


class AccessControl:
    """The decision on calls while users are enabled. Thread-safe. ``log_in`` and ``of_password`` block.

    Raises (each): AccessDenied.
    """

    def __init__(
        self,
        settings: AuthSettings | None,
        table: UserTable,
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
        setup: SetupSecret | None = None,
        on_login: Callable[[str, str, str], None] = lambda _what, _name, _ip: None,
    ) -> None:
        """``now_ms``: a monotonic clock. Without ``settings`` no call needs a user, and no caller can log in.

        ``setup``: checks the secret for making the first administrator; None if none may be made. ``on_login``:
        called with ``login.done`` or ``login.refused``, the user's name as it was given, and the address.
        """
        self.enabled = settings is not None
        self.table = table
        self.setup = setup if settings else None
        self.wall_ms = wall_ms
        self.tokens = Tokens(settings.token_key, settings.token_ttl_s, wall_ms) if settings else None
        self.passwords = Passwords() if settings else None
        self._limits = LoginLimits(now_ms)
        self._sessions: dict[bytes, Session] = {}
        """The sessions by hash of their token."""
        self._hop_tokens: dict[str, tuple[str, int, str]] = {}
        """Entries by user: the generation, when the token was made, the token."""
        self._ended_here: dict[str, None] = {}
        """The ids of tokens that log-outs at this node ended, oldest first. Their records may take a while, or fail."""
        self.stats = AccessStats()
        self._on_login = on_login

    # --- sessions --------------------------------------------------------------------------------------

    def session(self, token: str) -> Session:
        """Return the session of a token, if its user still has it."""
        if not token:
            raise AccessDenied(UNKNOWN_USER)
        digest = sha256(token.encode("utf-8", "replace")).digest()
        known = self._sessions.get(digest)
        if known is None:
            known = self._read(token)
            if len(self._sessions) >= SESSIONS_MAX:
                self._drop_ended()
            self._sessions[digest] = known
        self.check_lasts(known)
        return known

    def _read(self, token: str) -> Session:
        tokens = self.tokens
        if tokens is None:
            raise AccessDenied(TOKEN_INVALID)
        claims = tokens.read(token)
        user = self.table.user(claims.user)
        if user is None:
            raise AccessDenied(TOKEN_INVALID)
        generation = claims.generation
        if generation is None:
            # Real Nacos made it, and knows no generations. It counts whole seconds.
            begin_ms = claims.begin_s * 1_000
            if begin_ms > self.wall_ms() + CLOCKS_DIFFER_MS:
                begin_ms -= AHEAD_MAX_S * 1_000  # that server's clock is ahead by an unknown time
            if begin_ms <= user.set_ms:
                raise AccessDenied(TOKEN_INVALID)
            generation = user.generation
        return Session(claims.user, generation, claims.end_s * 1_000, id_of(token))

    def _drop_ended(self) -> None:
        """Forget the sessions that ended. If none did, forget the older half."""
        now_ms, sessions = self.wall_ms(), self._sessions.copy()
        lasting = {digest: one for digest, one in sessions.items() if one.end_ms > now_ms}
        if len(lasting) > SESSIONS_MAX // 2:
            lasting = dict(list(lasting.items())[len(lasting) // 2 :])
        self._sessions = lasting

    def check_lasts(self, session: Session) -> None:
        """Check that a session has not expired, and that its user has not ended it."""
        if session.end_ms <= self.wall_ms():
            raise AccessDenied(TOKEN_EXPIRED)
        user = self.table.user(session.user)
        if user is None or user.generation != session.generation:
            raise AccessDenied(TOKEN_INVALID)
        if session.token_id in user.ended or session.token_id in self._ended_here:
            raise AccessDenied(TOKEN_INVALID)

    def end_here(self, token: str) -> None:
        """Refuse a token at this node from now on, even if its record fails."""
        if len(self._ended_here) >= ENDED_HERE_MAX:
            del self._ended_here[next(iter(self._ended_here))]
        self._ended_here[id_of(token)] = None
        self.table.version += 1  # allowed calls are checked again

    def log_in(self, name: str, password: str, ip: str, wait: LoginWait | None = None) -> Session:
        """Return the session of a user who gives the right password.

        ``wait``: the wait of a call that can be made again later. Without it, a login that has to wait blocks the
        caller's thread.

        Raises:
            AccessDenied: unknown user or wrong password.
            TooManyLogins: too many logins wait; this password was not checked.
            LoginPutOff: this password was not checked yet.
        """
        passwords, tokens = self.passwords, self.tokens
        if passwords is None or tokens is None:
            raise AccessDenied(AUTH_IS_OFF)
        attempt = self._begin(name, ip, wait)
        user = self.table.user(name)
        try:
            right = passwords.is_right(user, password)
        except TooManyLogins:
            if wait is not None and self._limits.put_off(attempt):
                wait.attempt = attempt
                raise LoginPutOff(attempt.wait_ms) from None
            self._limits.withdraw(attempt)
            self.stats.logins_throttled += 1
            raise
        if not right or user is None:
            self.stats.logins_wrong += 1
            self._on_login("login.refused", name[:NAME_CHARS_MAX], ip)
            raise AccessDenied(UNKNOWN_USER)
        self._limits.right(attempt)
        self.stats.logins += 1
        self._on_login("login.done", name, ip)
        return Session(user.name, user.generation, self.wall_ms() + tokens.ttl_s * 1_000)

    def _begin(self, name: str, ip: str, wait: LoginWait | None) -> Attempt:
        """Begin an attempt whose password may be checked now."""
        if wait is not None and wait.attempt is not None:
            attempt, wait.attempt = wait.attempt, None
        else:
            try:
                attempt = self._limits.begin(name, ip)
            except TooManyLogins:
                self.stats.logins_throttled += 1
                raise
            if attempt.wait_ms:
                self.stats.logins_waited += 1
                if wait is not None:
                    wait.attempt = attempt
                    raise LoginPutOff(attempt.wait_ms)
                Event().wait(attempt.wait_ms / 1_000)
        self._limits.leave(attempt)
        return attempt

    def give_up(self, wait: LoginWait) -> None:
        """Forget the attempt of a call that will not be made again."""
        if wait.attempt is not None:
            self._limits.withdraw(wait.attempt)
            wait.attempt = None

    def remembered(self, name: str, password: str, ip: str) -> Session | None:
        """Return the session of a user whose password was recently right; None if only ``log_in`` can tell.

        A caller with too many wrong passwords is refused: otherwise the memory would answer any number of guesses.
        """
        passwords, tokens, user = self.passwords, self.tokens, self.table.user(name)
        if passwords is None or tokens is None or user is None or not self._limits.allows(name, ip):
            return None
        if not passwords.is_remembered(user, password):
            return None
        return Session(user.name, user.generation, self.wall_ms() + tokens.ttl_s * 1_000)

    def token_of(self, session: Session) -> str:
        """Return a new token of a session's user."""
        assert self.tokens is not None, "sessions exist only while users are on"
        return self.tokens.make(session.user, session.generation)

    def hop_token(self, session: Session) -> str:
        """Return a token of a session's user for forwarded calls, made once in ``HOP_TOKEN_MS``."""
        now_ms = self.wall_ms()
        generation, made_ms, token = self._hop_tokens.get(session.user, ("", 0, ""))
        if generation != session.generation or not 0 <= now_ms - made_ms < HOP_TOKEN_MS:
            token = self.token_of(session)
            if len(self._hop_tokens) >= HOP_TOKENS_MAX:
                self._hop_tokens = {}
            self._hop_tokens[session.user] = session.generation, now_ms, token
        return token

    # --- rights -------------------------------------------------------------------------------------

    def rights(self, session: Session) -> Rights:
        """Return the rights of a session's user."""
        return self.table.rights(session.user)

    def check(self, session: Session, access: AccessRule, resource: Resource | None) -> None:
        """Check that a session's user may make a call with this access. ``resource``: the service of a NAMING call."""
        rights = self.table.rights(session.user)
        match access.scope:
            case Scope.PUBLIC | Scope.LOGGED_IN:
                return
            case Scope.NAMING:
                allowed = resource is not None and rights.allows(access.action, resource)
            case Scope.ADMIN:
                allowed = rights.is_admin
            case Scope.MEMBERS | Scope.RECENT_MEMBERS:
                allowed = False
        if not allowed:
            raise AccessDenied(NOT_PERMITTED)

    def count(self, error: AccessDenied) -> None:
        """Count a refusal by its reason."""
        name = _REASONS.get(error.text, "access_invalid")
        setattr(self.stats, name, getattr(self.stats, name) + 1)
