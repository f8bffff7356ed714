"""The users, roles and permissions of this member, kept up to date with their records."""

from app.auth.user_rights import Permission, Rights
from app.naming.records.record import Record
from app.naming.records.record_keys import PermissionKey, RoleKey, UserKey, parse_record_key
from app.naming.records.user_records import ADMIN_ROLE, User, user_of

_NOBODY = Rights(False, ())


class UserTable:
    """Users with their roles and rights. Reads take no lock; ``on_record`` is called by one thread at a time.

    ``version`` rises after each change: decisions of an earlier version must be made again.
    """

    def __init__(self) -> None:
        self.version = 0
        self._users: dict[str, User] = {}
        self._roles: dict[str, frozenset[str]] = {}
        """The roles of each user."""
        self._permissions: dict[str, dict[tuple[str, str], Permission | None]] = {}
        """The permissions of each role, by actions and resource; None for one about other things. Never mutated."""
        self._rights: dict[str, tuple[int, Rights]] = {}
        """The rights of users that made calls, each with its version."""

    def on_record(self, record: Record) -> None:
        """Apply a record that was read, written or removed."""
        gone = record.value is None
        match parse_record_key(record.key):
            case UserKey(name):
                if record.value is None:
                    self._users.pop(name, None)
                else:
                    self._users[name] = user_of(name, record.value)
            case RoleKey(role, name):
                others = self._roles.get(name, frozenset()) - {role}
                self._roles[name] = others if gone else others | {role}
                if not self._roles[name]:
                    del self._roles[name]
            case PermissionKey(role, actions, resource):
                known = {**self._permissions.get(role, {})}
                known.pop((actions, resource), None)
                if not gone:
                    known[actions, resource] = Permission.of(resource, actions)
                self._permissions[role] = known
                if not known:
                    del self._permissions[role]
            case _:
                return
        self._rights = {}
        self.version += 1

    def user(self, name: str) -> User | None:
        """Return the user of this name; None if unknown."""
        return self._users.get(name)

    def users(self) -> list[str]:
        """Return the names of all users, sorted."""
        return sorted(self._users.copy())

    def roles_of(self, name: str) -> frozenset[str]:
        """Return the roles of a user."""
        return self._roles.get(name, frozenset())

    def roles(self) -> list[tuple[str, str]]:
        """Return all roles with the user that has each, sorted."""
        return sorted((role, name) for name, roles in self._roles.copy().items() for role in roles)

    def permissions(self) -> list[tuple[str, str, str]]:
        """Return all permissions: role, resource, actions; sorted."""
        permissions = self._permissions.copy()
        return sorted((role, resource, actions) for role, of in permissions.items() for actions, resource in of)

    def has_admin(self) -> bool:
        """Return whether any user is an administrator."""
        return any(ADMIN_ROLE in roles and name in self._users for name, roles in self._roles.copy().items())

    def rights(self, name: str) -> Rights:
        """Return the rights of a user; none for an unknown one."""
        version, of_users = self.version, self._rights
        known = of_users.get(name)
        if known is not None and known[0] == version:
            return known[1]
        if name not in self._users:
            return _NOBODY
        roles = self.roles_of(name)
        permissions = [one for role in roles for one in self._permissions.get(role, {}).values() if one is not None]
        rights = Rights.of(roles, permissions)
        of_users[name] = version, rights
        return rights
