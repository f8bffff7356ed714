"""What a live node answers fits its description, whatever it is asked: schemathesis makes the calls up."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, make_first_admin
from tests.support.client import CONTEXT_PATH, Answer
from tests.support.described import Description
from tests.support.processes import Member, free_ports
from tests.support.schema_calls import SchemaCalls
from tests.support.thorough import usually

# Some thousand calls: a minute of a processor, which on a busy machine is many.
pytestmark = pytest.mark.timeout(1_200)

EXAMPLES, EXAMPLES_WITH_USERS = usually(2, 3), 1
IDENTITY = {
    "nacos.core.auth.server.identity.key": "Cluster-Key",
    "nacos.core.auth.server.identity.value": "the-secret-of-these-members",
}
"""Without it a caller of a member's address is the member."""
LEFT_OUT = frozenset(
    f"{method} {CONTEXT_PATH}{path}"
    for method, path in (
        ("PUT", "/v1/ns/operator/drain"),
        ("PUT", "/v1/ns/ops/drain"),
        ("PUT", "/v1/ns/operator/switches"),
        ("PUT", "/v1/ns/ops/switches"),
        ("PUT", "/v2/ns/operator/switches"),
        ("PUT", "/v2/ns/ops/switches"),
        ("PUT", "/v3/admin/ns/ops/switches"),
        ("GET", "/v1/ns/service/changes"),
        ("GET", "/v1/ns/catalog/changes"),
        ("GET", "/v1/ns/link/changes"),
        ("GET", "/v1/ns/operator/events/changes"),
        ("GET", "/v1/ns/ops/events/changes"),
    )
)
"""A node that drains, or whose switches are any, refuses the calls behind, and a stream lasts for a minute; these have
tests of their own."""
CALLS_MIN = 200 * EXAMPLES
DONE_MIN = 75
"""So many operations, other than removals, do what is asked of them with their example values."""


def _nodes(folder: Path, settings: Mapping[str, str]) -> Iterator[Member]:
    port = free_ports(1)[0]
    alone = {"rollcall.announce": "false", "nacos.standalone": "false", "nacos.member.list": f"127.0.0.1:{port}"}
    node = Member(port, folder / str(port), {**alone, **settings})
    try:
        node.start()
        node.wait_ready()
        yield node
        node.stop()
    finally:
        node.end()
    assert "Traceback (most recent call last)" not in node.log_text()


@pytest.fixture(scope="module")
def open_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A cluster of one: a standalone node takes no calls of members."""
    yield from _nodes(tmp_path_factory.mktemp("open"), {"nacos.prometheus.metrics.enabled": "true"})


@pytest.fixture(scope="module")
def node_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    for node in _nodes(tmp_path_factory.mktemp("users"), AUTH_ON | IDENTITY):
        make_first_admin(node)
        yield node


def document_of(node: Member) -> dict[str, Any]:
    found: dict[str, Any] = node.client.call("GET", "/openapi.json").json()
    return found


def token_of(node: Member) -> str:
    answer = node.client.call("POST", "/v1/auth/login", username=ADMIN, password=ADMIN_PASSWORD)
    return str(answer.json()["accessToken"])


# --- with the values of the description ----------------------------------------------------------------


def example_values(operation: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a call needs, and those that the description has an example of."""
    found = {}
    for one in operation["parameters"]:
        shape = one["schema"]
        if one["in"] == "query" and (one.get("required") or "examples" in shape):
            kind = 1 if shape["type"] in ("integer", "number") else shape["type"] == "boolean" or "DEFAULT"
            found[one["name"]] = [*shape.get("enum", []), *shape.get("examples", []), kind][0]
    return found


def ask(node: Member, method: str, path: str, operation: Mapping[str, Any], headers: Mapping[str, str]) -> Answer:
    target = path.removeprefix(CONTEXT_PATH).format(namespace="public", service="orders", tag="v1-instance")
    body = None
    if operation.get("requestBody", {}).get("required"):
        [(media_type, content)] = operation["requestBody"]["content"].items()
        example = content["schema"].get("examples", [None])[0]
        body = (example if isinstance(example, str) else json.dumps(example)).encode()
        headers = {**headers, "Content-Type": media_type}
    query = urlencode(example_values(operation))
    return node.client.call(method, f"{target}?{query}" if query else target, body, headers)


def complaints_of_examples(node: Member, headers: Mapping[str, str]) -> tuple[list[str], int]:
    """What does not fit of the answers to each operation's example; and how many did what was asked."""
    instance: dict[str, str | int] = {"serviceName": "orders", "ip": "10.0.0.1", "port": 8080}
    for path, values in (("service", {"serviceName": "orders"}), ("instance", instance)):
        assert node.client.call("POST", f"/v1/ns/{path}", headers=headers, **values).status == 200
    described = Description(document_of(node), strict=True)
    complaints, done = [], 0
    for path, operations in described.document["paths"].items():
        for method, operation in operations.items():
            label = f"{method.upper()} {path}"
            if method == "delete" or label in LEFT_OUT or not path.startswith(CONTEXT_PATH):
                continue
            answer = ask(node, method.upper(), path, operation, headers)
            media_type = (answer.content_type or "").partition(";")[0] or None
            body = answer.json() if media_type == "application/json" else answer.body.decode()
            found = described.complaints(operation, answer.status, media_type, body)
            complaints += [f"{label}: {one}: {answer.body[:300]!r}" for one in found]
            done += answer.status in (200, 202)
    return complaints, done


def test_each_call_with_its_example_values(open_node: Member) -> None:
    complaints, done = complaints_of_examples(open_node, {})
    assert not complaints, "\n".join(complaints)
    assert done >= DONE_MIN


def test_each_call_of_an_administrator_with_its_example_values(node_with_users: Member) -> None:
    complaints, done = complaints_of_examples(node_with_users, {"accessToken": token_of(node_with_users)})
    assert not complaints, "\n".join(complaints)
    assert done >= DONE_MIN


def test_no_call_that_needs_a_right_is_answered_without_one(node_with_users: Member) -> None:
    open_calls = []
    for path, operations in document_of(node_with_users)["paths"].items():
        for method, operation in operations.items():
            if operation["security"] and path.startswith(CONTEXT_PATH):
                answer = ask(node_with_users, method.upper(), path, operation, {})
                if answer.status not in (401, 403):
                    open_calls.append(f"{method.upper()} {path}: {answer.status}")
    assert not open_calls, "\n".join(open_calls)


# --- with values that are made up ----------------------------------------------------------------------


def calls(node: Member, examples: int, headers: Mapping[str, str] | None = None) -> SchemaCalls:
    made = SchemaCalls(node.address, document_of(node), headers)
    try:
        made.run(examples, leave_out=LEFT_OUT)
    finally:
        made.close()
    assert not made.complaints, "\n".join(made.complaints)
    return made


def test_made_up_calls(open_node: Member) -> None:
    made = calls(open_node, EXAMPLES)
    assert made.statuses.total() >= CALLS_MIN
    assert {200, 400, 404} <= made.statuses.keys()


def test_made_up_calls_without_a_token(node_with_users: Member) -> None:
    made = calls(node_with_users, EXAMPLES_WITH_USERS)
    operations = document_of(node_with_users)["paths"]
    for label, statuses in made.by_operation.items():
        method, path = label.split(" ")
        if operations[path][method.lower()]["security"] and path.startswith(CONTEXT_PATH):
            assert statuses.keys() <= {400, 401, 403, 429}, (label, statuses)


def test_made_up_calls_of_an_administrator(node_with_users: Member) -> None:
    made = calls(node_with_users, EXAMPLES_WITH_USERS, {"accessToken": token_of(node_with_users)})
    assert made.statuses[200]
