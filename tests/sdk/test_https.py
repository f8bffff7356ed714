"""The official v1 client libraries, unchanged, over HTTPS: of an authority that they trust, and of another."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sdk.environments import Environment, NotInstallable
from tests.sdk.program import Program, SdkError
from tests.sdk.stories import Environments
from tests.support.certificates import Authority
from tests.support.https_node import HttpsNode, running_https_node
from tests.support.processes import eventually

PORT = 8080
CHECKING = ("node", "java", "go")
"""Libraries that check a server's certificate; Python's takes any."""

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsNode]:
    yield from running_https_node(tmp_path_factory.mktemp("https"))


def trusting(environments: Environments, name: str, authority: Authority) -> tuple[Environment, str]:
    """A library that trusts an authority, and what its server addresses begin with."""
    found = environments[name]
    if isinstance(found, NotInstallable):
        pytest.skip(str(found))
    if name == "java":
        java, *rest = found.command
        trust = f"-Dtls.client.trustCertPath={authority.file}"
        return replace(found, command=(java, "-Dtls.enable=true", "-Dtls.client.authServer=true", trust, *rest)), ""
    file = str(authority.file)
    return replace(found, environ={**found.environ, "SSL_CERT_FILE": file, "NODE_EXTRA_CA_CERTS": file}), "https://"


def register(program: Program, service: str, ip: str) -> bool:
    values = {"ip": ip, "port": PORT, "cluster": "DEFAULT", "weight": 1.0, "metadata": {"a": "b"}}
    return program.call("register", "one", service=service, **values) is True


@pytest.mark.parametrize("name", ["python", *CHECKING])
def test_it_registers_and_lists(environments: Environments, node: HttpsNode, tmp_path: Path, name: str) -> None:
    environment, scheme = trusting(environments, name, node.authority)
    service, ours = f"https-{name}", f"10.7.0.2:{PORT}"
    plain = node.member.client.metrics()["tlsPlainRefused"]
    with Program(environment, tmp_path / name) as program:
        program.call("open", "one", servers=[scheme + node.member.address])
        assert register(program, service, "10.7.0.2")
        eventually(lambda: set(node.member.client.hosts(service)) == {ours})
        eventually(lambda: set(program.hosts("one", service)) == {ours})
        values = {"ip": "10.7.0.2", "port": PORT, "cluster": "DEFAULT"}
        assert program.call("deregister", "one", service=service, **values) is True
        assert node.member.client.hosts(service) == {}
    assert node.member.client.metrics()["tlsPlainRefused"] == plain


@pytest.mark.parametrize("name", CHECKING)
def test_it_sends_nothing_to_a_node_of_another_authority(
    environments: Environments, node: HttpsNode, tmp_path: Path, name: str
) -> None:
    environment, scheme = trusting(environments, name, Authority(tmp_path, "other"))
    service = f"untrusted-{name}"
    failed = node.member.client.metrics()["tlsHandshakesFailed"]
    with Program(environment, tmp_path / name) as program:
        try:
            program.call("open", "one", servers=[scheme + node.member.address])
            registered = register(program, service, "10.7.0.3")
        except SdkError:
            registered = False
        assert not registered
    assert node.member.client.hosts(service) == {}
    assert node.member.client.metrics()["tlsHandshakesFailed"] > failed
