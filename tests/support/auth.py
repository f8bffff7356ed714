"""Nodes that ask for users, and the users of a test."""

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from app.auth.users import Users
from app.config.auth_settings import FIRST_ADMIN_FILE
from app.naming.records.user_records import ADMIN_ROLE
from tests.support.client import Answer, Client
from tests.support.fake_node import FakeNode, make_settings
from tests.support.processes import Member

TOKEN_KEY = base64.b64encode(bytes(range(1, 49))).decode()
AUTH_ON = {"nacos.core.auth.enabled": "true", "nacos.core.auth.plugin.nacos.token.secret.key": TOKEN_KEY}
ADMIN, ADMIN_PASSWORD = "boss", "the boss's own"
PASSWORD = "correct horse"


def grant(users: Users, name: str, *permissions: tuple[str, str]) -> None:
    """Give a user a role of its own with permissions: resource, actions."""
    users.add_role(f"role of {name}", name)
    for resource, actions in permissions:
        users.add_permission(f"role of {name}", resource, actions)


def node_with_users(**overrides: str) -> FakeNode:
    """A node that asks for users, with the administrator ``ADMIN``."""
    node = FakeNode(settings=make_settings(**AUTH_ON, **overrides))
    assert node.access.passwords is not None
    node.users.create_first_admin(ADMIN, node.access.passwords.hash(ADMIN_PASSWORD))
    assert ADMIN_ROLE in node.access.table.roles_of(ADMIN)
    return node


def add_user(node: FakeNode, name: str, *permissions: tuple[str, str]) -> str:
    """Create a user with permissions (resource, actions); return a token of the user."""
    assert node.access.passwords is not None
    node.users.create(name, node.access.passwords.hash(PASSWORD))
    if permissions:
        grant(node.users, name, *permissions)
    return token_of(node, name)


def token_of(node: FakeNode, name: str) -> str:
    """A token of a user."""
    user = node.access.table.user(name)
    assert user is not None
    assert node.access.tokens is not None
    return node.access.tokens.make(name, user.generation)


def setup_secret_of(data: Path) -> str:
    """The secret of the first administrator in a member's data folder."""
    return (data / FIRST_ADMIN_FILE).read_text().strip()


def make_first_admin(member: Member, name: str = ADMIN, password: str = ADMIN_PASSWORD) -> None:
    """Make the first administrator at a member that runs."""
    secret = setup_secret_of(member.data)
    made = member.client.call("POST", "/v1/auth/users/admin", username=name, password=password, secret=secret)
    assert made.status == 200, made


class UserClient(Client):
    """A client of a member that sends a user's token with each call."""

    token = ""

    def log_in(self, name: str, password: str) -> dict[str, Any]:
        """Log in, and return what the member answered."""
        answer = self.try_login(name, password)
        assert answer.status == 200, answer
        values: dict[str, Any] = json.loads(answer.body)
        self.token = values["accessToken"]
        return values

    def try_login(self, name: str, password: str) -> Answer:
        """The answer to a login, which may be a refusal."""
        form = urlencode({"username": name, "password": password}).encode()
        return self.call("POST", "/v1/auth/login", form, {"Content-Type": "application/x-www-form-urlencoded"})

    def ask(self, method: str, path: str, **parameters: str | int) -> Answer:
        """Call with the token of the last login."""
        return self.call(method, path, accessToken=self.token, **parameters)
