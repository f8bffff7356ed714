"""nacos-maintainer-sdk-python, unchanged: it logs in; all its calls are about AI, and refused in one way."""

from pathlib import Path

import pytest

from tests.sdk.environments import NotInstallable, install_maintainer_python
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import running_cluster
from tests.support.auth import ADMIN, ADMIN_PASSWORD, AUTH_ON, UserClient, make_first_admin
from tests.support.processes import eventually

METHODS = frozenset((
    "create_mcp_server", "delete_agent", "delete_mcp_server", "get_agent_card", "get_mcp_server_detail",
    "list_agent_cards_by_name", "list_all_version_of_agent", "list_mcp_servers", "register_agent",
    "search_agent_cards_by_name", "search_mcp_server", "update_agent_card", "update_mcp_server",
))  # fmt: skip
"""All methods of the library."""

# With the installation of the library, which is only once.
pytestmark = pytest.mark.timeout(900)


def test_every_call_logs_in_and_is_refused(tmp_path: Path) -> None:
    try:
        environment = install_maintainer_python()
    except NotInstallable as error:
        pytest.skip(str(error))
    with running_cluster(tmp_path / "members", AUTH_ON) as cluster:
        make_first_admin(cluster.members[0])
        for one in cluster:
            there = UserClient(one.address)
            eventually(lambda there=there: there.try_login(ADMIN, ADMIN_PASSWORD).status == 200)
        with Program(environment, tmp_path / "program") as program:
            program.open("operator", *cluster.members, username=ADMIN, password=ADMIN_PASSWORD)
            assert set(program.call("methods", "operator")) == METHODS
            for name in sorted(METHODS):
                with pytest.raises(SdkError, match=r"501 .*a naming server without configurations, AI and plug-ins"):
                    program.call(name, "operator")
