"""Users: changes of users, roles and permissions. Each is on disk before it returns, and is sent to the members."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from app.auth.user_table import UserTable
from app.naming.model.events import Event, RecordChanged
from app.naming.model.keys import WALL_MS_END
from app.naming.model.nacos_errors import InvalidParam, NacosError
from app.naming.model.similar_names import is_plain, skeleton
from app.naming.records.record import Value
from app.naming.records.record_keys import permission_key, role_key, user_key
from app.naming.records.records import Records
from app.naming.records.user_records import (
    ADMIN_ROLE,
    ENDED_MAX,
    User,
    check_actions,
    check_name,
    check_resource,
    user_of,
)

USERS_MAX, ROLES_MAX, PERMISSIONS_MAX = 10_000, 20_000, 20_000
GENERATION_BYTES = 12
KEPT_S = 600
"""How long after its expiry an ended token is remembered, as the clocks of other members may be behind."""
CLOCKS_DIFFER_MS = 2_000
"""A revocation also ends tokens that real Nacos makes within this time after it: its clock may be ahead of ours."""


class AdminExists(NacosError):
    """An administrator exists already, who can create other users."""

    status = 409


class Users:
    """Writes of users' records. Thread-safe; blocks for the disk. It gets hashes, and never sees passwords.

    Raises (every change): StorageError; InvalidParam, whose text is Nacos's where it has one.
    """

    def __init__(
        self, records: Records, table: UserTable, wall_ms: Callable[[], int], publish: Callable[[Event], None]
    ) -> None:
        self._records = records
        self._table = table
        self._wall_ms = wall_ms
        self._publish = publish

    def create(self, name: str, password_hash: str) -> None:
        """Create a user without roles. Its name must be plain, or not look like that of another user."""
        check_name("username", name)
        if not is_plain(name):
            check_look("username", name, (one for one in self._table.users() if one != name))
        if len(self._table.users()) >= USERS_MAX:
            raise InvalidParam(f"the limit of {USERS_MAX} users is reached; delete one first")
        made = self._value(name, password_hash)

        def change(old: Value | None) -> Value:
            if old is not None:
                raise InvalidParam(f"user '{name}' already exist!")
            return made

        self._put({user_key(name): change})

    def create_first_admin(self, name: str, password_hash: str) -> None:
        """Create an administrator if there is none yet.

        Raises:
            AdminExists: there is one.
        """
        check_name("username", name)
        made = self._value(name, password_hash)

        def change(_old: Value | None) -> Value:
            if self._table.has_admin():
                raise AdminExists("an administrator exists already, who can create the other users")
            return made

        self._put({user_key(name): change, role_key(ADMIN_ROLE, name): lambda _old: {}})

    def set_admin(self, name: str, password_hash: str) -> None:
        """Make a user, existing or not, an administrator with this password: for callers with the data folder."""
        check_name("username", name)
        change = self._new_password(name, password_hash)
        self._put({user_key(name): change, role_key(ADMIN_ROLE, name): lambda _old: {}})

    def set_password(self, name: str, password_hash: str) -> None:
        """Change a user's password. All tokens of the user end."""
        self._check_known(name, f"user {name} not exist!")
        change = self._new_password(name, password_hash)
        self._put({user_key(name): lambda old: change(old) if old else None})

    def end_tokens(self, name: str) -> None:
        """End all tokens of a user. The password stays."""
        self._check_known(name, f"user {name} not exist!")
        generation = _new_generation()

        def change(old: Value | None) -> Value | None:
            if old is None:
                return None
            return replace(user_of(name, old), generation=generation, set_ms=self._revoked_ms(old), ended={}).to_json()

        self._put({user_key(name): change})

    def end_token(self, name: str, token_id: str, end_s: int) -> None:
        """End one token of a user, which expires at ``end_s``. One token too many ends all tokens of the user."""
        now_s, generation = self._wall_ms() // 1_000, _new_generation()

        def change(old: Value | None) -> Value | None:
            if old is None:
                return None
            user = user_of(name, old)
            ended = {one: at_s for one, at_s in user.ended.items() if at_s + KEPT_S > now_s} | {
                token_id: min(end_s, WALL_MS_END)
            }
            if len(ended) > ENDED_MAX:
                ended, user = {}, replace(user, generation=generation, set_ms=self._revoked_ms(old))
            return replace(user, ended=ended).to_json()

        self._put({user_key(name): change})

    def delete(self, name: str) -> None:
        """Remove a user with its roles. An administrator is not removed; an unknown user is ignored."""
        roles = self._table.roles_of(name)
        if ADMIN_ROLE in roles:
            raise InvalidParam(f"cannot delete admin: {name}")
        keys = [user_key(name), *(role_key(role, name) for role in sorted(roles))]
        self._put(dict.fromkeys(keys, lambda _old: None))

    def add_role(self, role: str, name: str) -> None:
        """Give a user a role."""
        check_name("role", role)
        check_look("role", role, () if role == ADMIN_ROLE else (ADMIN_ROLE,))
        if role == ADMIN_ROLE:
            raise InvalidParam(f"role '{ADMIN_ROLE}' is not permitted to create!")
        self._check_known(name, f"user '{name}' not found!")
        if len(self._table.roles()) >= ROLES_MAX:
            raise InvalidParam(f"the limit of {ROLES_MAX} assigned roles is reached; delete one first")
        self._put({role_key(role, name): lambda _old: {}})

    def remove_role(self, role: str, name: str) -> None:
        """Remove a role from a user, or with an empty name from all users, with its permissions."""
        if role == ADMIN_ROLE and all(other == name for known, other in self._table.roles() if known == role):
            raise InvalidParam("cannot delete the role of the last administrator")
        if name:
            if role in self._table.roles_of(name):
                self._put({role_key(role, name): lambda _old: None})
            return
        if role == ADMIN_ROLE:
            raise InvalidParam(f"role '{ADMIN_ROLE}' is not permitted to delete!")
        keys = [role_key(role, user) for known, user in self._table.roles() if known == role]
        keys += [
            permission_key(role, actions, one) for known, one, actions in self._table.permissions() if known == role
        ]
        self._put(dict.fromkeys(keys, lambda _old: None))

    def add_permission(self, role: str, resource: str, actions: str) -> None:
        """Permit a role actions on the resources that match a pattern."""
        check_actions(actions)
        check_resource(resource)
        if all(known != role for known, _ in self._table.roles()):
            raise InvalidParam(f"role {role} not found!")
        if len(self._table.permissions()) >= PERMISSIONS_MAX:
            raise InvalidParam(f"the limit of {PERMISSIONS_MAX} permissions is reached; delete one first")
        self._put({permission_key(role, actions, resource): lambda _old: {}})

    def remove_permission(self, role: str, resource: str, actions: str) -> None:
        """Remove a permission from a role. An unknown one is ignored."""
        if (role, resource, actions) in self._table.permissions():
            self._put({permission_key(role, actions, resource): lambda _old: None})

    def _check_known(self, name: str, text: str) -> None:
        if self._table.user(name) is None:
            raise InvalidParam(text)

    def _new_password(self, name: str, password_hash: str) -> Callable[[Value | None], Value]:
        """Return the change that gives a user another password, or makes the user."""
        made = self._value(name, password_hash)
        return lambda old: made if old is None else {**made, "setMs": self._revoked_ms(old)}

    def _revoked_ms(self, old: Value) -> int:
        """Return the time up to which a revocation now ends tokens of real Nacos. It never goes back."""
        return max(self._wall_ms() + CLOCKS_DIFFER_MS, user_of("", old).set_ms)

    def _value(self, name: str, password_hash: str) -> Value:
        return User(name, password_hash, _new_generation(), self._wall_ms()).to_json()

    def _put(self, changes: Mapping[str, Callable[[Value | None], Value | None]]) -> None:
        for key in self._records.put_all(changes):
            self._publish(RecordChanged(key))


def check_look(what: str, name: str, others: Iterable[str]) -> None:
    """Refuse a name that people would mistake for one of the others.

    Raises:
        InvalidParam: the text names ``what`` and the other name.
    """
    look = skeleton(name)
    if other := next((one for one in others if skeleton(one) == look), None):
        raise InvalidParam(f"Parameter '{what}' is illegal: {name!a} looks like {other!a}")


def _new_generation() -> str:
    return secrets.token_hex(GENERATION_BYTES)
