"""nacos-maintainer-client of Java, unchanged: every method that operators have, at three members that ask for users."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.environments import Environment, NotInstallable, install_maintainer
from tests.sdk.maintainer_calls import ROWS, Operator
from tests.sdk.maintainer_core_calls import PART_METHODS, REFUSED, UNREADABLE
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import running_cluster
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, PASSWORD, UserClient, make_first_admin
from tests.support.processes import ClusterProcesses, eventually

LOCAL = {"shutdown()", "fillAllPattern(String)"}
"""Methods that call no server."""
LOCAL_MCP = "createLocalMcpServer(String,McpServerBasicInfo,McpToolSpecification)"
ARGUMENTS = {LOCAL_MCP: ["sample", {"protocol": "stdio"}, {}]}
"""Those of calls for which the library does not take samples."""
# With the installation of the library, which is only once.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def environment() -> Environment:
    try:
        return install_maintainer()
    except NotInstallable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with running_cluster(tmp_path_factory.mktemp("maintainer"), AUTH_ON) as started:
        make_first_admin(started.members[0])
        yield started


@pytest.fixture(scope="module")
def readers(cluster: ClusterProcesses) -> list[UserClient]:
    """An administrator at each member."""
    found = [UserClient(member.address) for member in cluster]
    for one in found:
        eventually(lambda one=one: one.try_login(ADMIN, ADMIN_PASSWORD).status == 200)
        one.log_in(ADMIN, ADMIN_PASSWORD)
    return found


@pytest.fixture(scope="module")
def program(
    environment: Environment, cluster: ClusterProcesses, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    with Program(environment, tmp_path_factory.mktemp("program")) as started:
        yield started


@pytest.fixture(scope="module")
def operator(program: Program, cluster: ClusterProcesses, readers: list[UserClient]) -> Operator:
    """The library as an administrator, at the first member, which is not the owner of all that it changes."""
    program.open("operator", cluster.members[0], kind="naming", username=ADMIN, password=ADMIN_PASSWORD)
    return Operator(program, readers)


def test_each_method_is_in_one_table(operator: Operator) -> None:
    methods = [one for one in operator.program.call("methods", "operator") if one not in LOCAL]
    tables = (
        {name: one.overloads for name, one in ROWS.items()},
        {name: overloads for name, (overloads, _) in REFUSED.items()},
        UNREADABLE,
    )
    assert Counter(name.partition("(")[0] for name in methods) == sum(map(Counter, tables), Counter())


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_method_does_its_work(operator: Operator, name: str) -> None:
    ROWS[name].run(operator)
    made = [one for one in operator.made if one.partition("(")[0] == name]
    assert len(made) == ROWS[name].overloads


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_method_is_refused(operator: Operator, name: str) -> None:
    methods = [one for one in operator.program.call("methods", "operator") if one.partition("(")[0] == name]
    assert len(methods) == REFUSED[name][0]
    for method in methods:
        with pytest.raises(SdkError, match=rf": 501 .*{REFUSED[name][1]}"):
            operator.program.call(method, "operator")


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_the_library_cannot_read_an_answer_in_its_envelope(operator: Operator, name: str) -> None:
    with pytest.raises(SdkError, match="NacosDeserializationException"):
        operator.program.call(f"{name}()", "operator")


@pytest.mark.parametrize("part", PART_METHODS)
def test_a_part_is_refused(operator: Operator, cluster: ClusterProcesses, part: str) -> None:
    program = operator.program
    program.open(part, cluster.members[0], kind=part, username=ADMIN, password=ADMIN_PASSWORD)
    core = set(program.call("methods", "operator"))
    core -= {"setLogLevel(String,String)"}  # of each part
    methods = [one for one in program.call("methods", part) if one not in core | LOCAL]
    for method in methods:
        given = {"arguments": ARGUMENTS[method]} if method in ARGUMENTS else {}
        with pytest.raises(SdkError, match=r": 501 .*a naming server without configurations, AI and plug-ins"):
            program.call(method, part, **given)
    assert len(methods) == PART_METHODS[part][1]


def test_a_user_without_a_right_is_refused(
    operator: Operator, cluster: ClusterProcesses, readers: list[UserClient], tmp_path: Path
) -> None:
    assert readers[0].ask("POST", "/v3/auth/user", username="guest", password=PASSWORD).status == 200
    eventually(lambda: all(UserClient(one.address).try_login("guest", PASSWORD).status == 200 for one in cluster))
    program = operator.program
    program.open("guest", cluster.members[1], kind="naming", username="guest", password=PASSWORD)
    for method, arguments in (
        ("registerInstance(String,String,int)", ["guests", "10.9.0.1", 8080]),
        ("getNamespaceList()", []),
        ("getCurrentClients()", []),
    ):
        with pytest.raises(SdkError, match=": 403 "):
            program.call(method, "guest", arguments=arguments)
    assert operator.hosts("guests") == [{}, {}, {}]
