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


CHANGING_READS = [
    row for row in ROUTES if row.method == "GET" and row.access.action is Action.WRITE and not row.access.only_reads
]
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept-Language": "de"}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("row", CHANGING_READS, ids=name_of)
def test_a_browser_changes_nothing_with_get(row: Route, method: str, client: FlaskClient) -> None:
    answer = client.open(f"/nacos{row.path}?serviceName=a&dom=a&count=1", method=method, headers=BROWSER)
    assert answer.status_code == 403
    assert method == "HEAD" or answer.text.startswith("a browser must not change anything with GET")


def test_what_get_changes_another_method_changes_too() -> None:
    others = {row.path for row in ROUTES if row.method in ("POST", "PUT")}
    of_clients = [row for row in CHANGING_READS if row not in OF_MEMBERS]
    assert {row.path for row in of_clients if row.path not in others} <= {
        "/v1/ns/api/clientBeat",  # PUT /v1/ns/instance/beat
        "/v1/cs/communication/dataChange",  # refused, as there is no configuration
    }


def test_members_read_of_each_other_only() -> None:
    """What a member writes at another one is a members' row of its own: never a client's row that it may call too."""
    assert {row.access.action for row in ROUTES if row.access.members_too} == {Action.READ}
