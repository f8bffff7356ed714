"""Whatever is typed and whatever a server answers, a command ends with an exit code and without a trace."""

import contextlib
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.config.client_config import CLIENT_VARIABLES
from app.tools.cli import main
from app.tools.command.asking.exits import ExitCode
from tests.support.thorough import examples
from tests.support.tiny_server import Given, TinyServer, refusing_address, tiny_server

CODES = {code.value for code in ExitCode}
WORDS = st.text(max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
FIELDS = (
    *("ip", "port", "name", "groupName", "clusterName", "weight", "healthy", "enabled", "metadata", "lastBeat"),
    *("ipCount", "healthyInstanceCount", "address", "state", "extendInfo", "clientId", "username"),
)
ROWS = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, VALUES)), max_size=3)
LISTS = ("serviceList", "instances", "servers", "pageItems", "subscribers", "doms")
ANSWERS = st.one_of(
    st.binary(max_size=40),
    VALUES.map(lambda value: json.dumps(value).encode()),
    ROWS.map(lambda rows: json.dumps({"count": len(rows), **dict.fromkeys(LISTS, rows)}).encode()),
    ROWS.map(
        lambda rows: json.dumps(
            {"code": 0, "message": "", "data": {"count": len(rows), **dict.fromkeys(LISTS, rows)}}
        ).encode()
    ),
    ROWS.map(lambda rows: json.dumps({"code": 0, "message": "", "data": rows}).encode()),
)
COMMANDS = st.sampled_from(
    [
        ["services"],
        ["instances", "orders"],
        ["members"],
        ["clients"],
        ["clients", "c"],
        ["clients", "--service", "orders"],
        ["watch", "orders", "--for", "1ms"],
        ["watch", "--for", "1ms"],
        ["register", "orders", "10.0.0.1:80"],
        ["deregister", "orders", "10.0.0.1:80"],
        ["drain", "orders", "10.0.0.1:80", "--within", "1ms"],
        ["drain", "--node"],
        ["user", "list"],
        ["user", "permissions"],
    ]
)


@pytest.fixture(autouse=True, scope="module")
def no_configuration() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in CLIENT_VARIABLES:
            patch.delenv(name, raising=False)
        patch.setenv("HOME", "/nonexistent")
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        patch.setattr("app.tools.command.registry.drain_command.SLACK_S", 0.0)
        patch.setattr("app.tools.command.registry.drain_command.POLL_S", 0.0)
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[TinyServer]:
    with tiny_server() as one:
        yield one


def ended(*arguments: str) -> tuple[int, str, str]:
    """Exit code and output of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(str(error.code))
    return code, out.getvalue(), err.getvalue()


@settings(deadline=None, max_examples=examples(60))
@given(
    command=COMMANDS,
    answer=ANSWERS,
    status=st.sampled_from([200, 200, 200, 202, 400, 403, 404, 500, 503]),
    as_json=st.booleans(),
)
def test_whatever_a_server_answers(
    server: TinyServer, command: list[str], answer: bytes, status: int, as_json: bool
) -> None:
    server.answer = lambda _: Given(status, answer)
    code, out, err = ended(*command, "--server", server.address, *(["--json"] if as_json else []))
    assert code in CODES, err
    assert all(one.isprintable() for one in (out + err).replace("\n", "")), "nothing that a terminal obeys"
    if as_json and code == 0 and command[0] != "watch":
        json.loads(out)


@settings(deadline=None, max_examples=examples(60))
@given(service=WORDS, server=WORDS | st.just(""), namespace=WORDS, path=WORDS)
def test_whatever_is_typed(service: str, server: str, namespace: str, path: str) -> None:
    where = refusing_address() if not server else f"127.0.0.1:1/{server}"
    typed = ["instances", f"--server={where}", f"--namespace={namespace}", f"--context-path={path}", "--", service]
    code, out, err = ended(*typed)
    assert code in CODES, err
    assert out == ""


@settings(deadline=None, max_examples=examples(60))
@given(server=WORDS)
def test_whatever_is_given_as_server_is_refused_or_not_there(server: str) -> None:
    # With a port at which nobody listens, whatever the host: no name is looked up that chance made.
    code, _, err = ended("services", "--timeout", "50ms", f"--server=http://127.0.0.1:1{server}")
    assert code in CODES, err
    assert "Traceback" not in err
