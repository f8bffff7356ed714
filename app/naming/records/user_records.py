"""The values of users' records, and the names, actions and resources that are allowed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.naming.model.json_fields import FROM_RECORD, Fields
from app.naming.model.keys import WALL_MS_END
from app.naming.model.nacos_errors import InvalidParam
from app.naming.records.record_keys import NAME_SPLITTER, PermissionKey, RoleKey, UserKey

NAME_CHARS_MAX = 128
RESOURCE_CHARS_MAX = 1_024
HASH_CHARS_MAX = 512
GENERATION_CHARS_MAX = 64
TOKEN_ID_CHARS = 32
ENDED_MAX = 512
"""The most tokens of a user that log-outs ended and that have not expired."""
ACTIONS = ("r", "w", "rw")
ADMIN_ROLE = "ROLE_ADMIN"
_TOKEN_ID = re.compile(rf"[0-9a-f]{{{TOKEN_ID_CHARS}}}")
_HASH = re.compile(r"\$argon2id\$[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class User:
    """A user as its record has it. ``generation``: a token that names another one has ended."""

    name: str
    password_hash: str
    generation: str
    set_ms: int
    """Tokens of real Nacos made up to this time have ended. Each new password and each end of tokens moves it."""
    ended: Mapping[str, int] = field(default_factory=dict)
    """The tokens of this generation that log-outs ended, by their id, with their expiry (s)."""

    def to_json(self) -> dict[str, Any]:
        """Return the value of the user's record."""
        value = {"password": self.password_hash, "generation": self.generation, "setMs": self.set_ms}
        return value | ({"ended": dict(self.ended)} if self.ended else {})


def user_of(name: str, value: Mapping[str, Any]) -> User:
    """Return the user of a record's value.

    Raises:
        InvalidParam: a field is missing or of another type; the text names it, and repeats no value.
    """
    fields = Fields(value, FROM_RECORD, " of a user")
    password_hash = fields.required("password", HASH_CHARS_MAX)
    if not _HASH.fullmatch(password_hash):
        raise InvalidParam("field 'password' of a user should be a hash by argon2id")
    generation = fields.required("generation", GENERATION_CHARS_MAX)
    ended = fields.whole_object("ended") if fields.has("ended") else {}
    if len(ended) > ENDED_MAX or not all(map(_TOKEN_ID.fullmatch, ended)):
        raise InvalidParam(f"field 'ended' of a user should hold ids of tokens, {ENDED_MAX} at most")
    ends = Fields(ended, FROM_RECORD, " of a user's ended tokens")
    ended = {one: ends.whole(one, None, 0, WALL_MS_END) for one in ended}
    return User(name, password_hash, generation, fields.whole("setMs", None, 0, WALL_MS_END - 1), ended)


def check_name(what: str, name: str) -> None:
    """Refuse the name of a user or role that could not be part of a record's key or a log line.

    Raises:
        InvalidParam: the text names ``what``.
    """
    if not name or len(name) > NAME_CHARS_MAX:
        raise InvalidParam(f"Parameter '{what}' is illegal: it should have 1 to {NAME_CHARS_MAX} characters")
    if not name.isprintable() or name != name.strip() or NAME_SPLITTER in name:
        raise InvalidParam(f"Parameter '{what}' is illegal: it should be printable, without '/' and blanks around it")


def check_resource(resource: str) -> None:
    """Refuse a pattern of resources that could match nothing.

    Raises:
        InvalidParam: it has not the three parts of ``namespace:group:type/name``, or is too long.
    """
    if len(resource) > RESOURCE_CHARS_MAX or not resource.isprintable() or resource.count(":") < 2:
        raise InvalidParam(
            "Parameter 'resource' is illegal: it should be namespace:group:naming/service, each perhaps with *, "
            f"such as orders-dev:*:* or :*:* for the public namespace, of at most {RESOURCE_CHARS_MAX} characters"
        )


def check_actions(actions: str) -> None:
    """Refuse anything except ``r``, ``w`` and ``rw``.

    Raises:
        InvalidParam: it is none of these.
    """
    if actions not in ACTIONS:
        raise InvalidParam(f"Parameter 'action' is illegal: it should be one of {', '.join(ACTIONS)}")


def check_users_record(key: UserKey | RoleKey | PermissionKey, value: Mapping[str, Any] | None) -> None:
    """Refuse a record of users that cannot be used, before it is stored.

    Raises:
        InvalidParam: the key or the value is not allowed.
    """
    match key:
        case UserKey(user):
            check_name("username", user)
            if value is not None:
                user_of(user, value)
        case RoleKey(role, user):
            check_name("role", role)
            check_name("username", user)
        case PermissionKey(role, actions, resource):
            check_name("role", role)
            check_actions(actions)
            check_resource(resource)
