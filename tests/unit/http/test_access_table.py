"""The access that the rows of the route table declare."""

import pytest
from flask.testing import FlaskClient

from app.auth.access_rules import Action, Scope
from app.http import blueprints
from app.http.api.call import ROUTES, Route

assert blueprints.MODULES  # the table is filled by their import

OF_MEMBERS = [row for row in ROUTES if row.access.scope in (Scope.MEMBERS, Scope.RECENT_MEMBERS)]


def name_of(row: Route) -> str:
    return f"{row.method} {row.path}"


@pytest.mark.parametrize("row", OF_MEMBERS, ids=name_of)
def test_a_call_of_members_is_refused_to_others(row: Route, client: FlaskClient) -> None:
    answer = client.open(f"/nacos{row.path}", method=row.method, environ_overrides={"REMOTE_ADDR": "10.9.9.9"})
    assert (answer.status_code, answer.text) == (403, "10.9.9.9 is not the address of a listed member")


def test_members_read_of_each_other_only() -> None:
    """What a member writes at another one is a members' row of its own: never a client's row that it may call too."""
    assert {row.access.action for row in ROUTES if row.access.members_too} == {Action.READ}
