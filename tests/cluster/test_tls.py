"""TLS with real processes: clients by HTTPS, members among themselves, certificates that are replaced, attackers."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority, https_settings
from tests.support.client import Client
from tests.support.processes import Member, free_ports


class TlsNode:
    """A standalone node with HTTPS, and what its certificate is made by."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.chain, self.private_key = folder / "chain.pem", folder / "key.pem"
        self.serial = self.authority.issue(self.chain, self.private_key)
        [self.port] = free_ports(1)
        settings = https_settings(self.chain, self.private_key, self.authority.file)
        self.member = Member(self.port, folder / "node", {"rollcall.announce": "false", **settings})


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    made = TlsNode(tmp_path_factory.mktemp("tls"))
    try:
        made.member.start()
        made.member.wait_ready()
        yield made
        made.member.stop()
    finally:
        made.member.end()
    assert "Traceback" not in made.member.log_text(), made.member.log_text()[-6_000:]


def test_a_client_that_trusts_the_authority_is_served(node: TlsNode) -> None:
    client = node.member.client
    assert client.register("web", "1.1.1.1").body == b"ok"
    assert set(client.hosts("web")) == {"1.1.1.1:8080"}


def test_a_client_that_trusts_another_authority_refuses_the_node(node: TlsNode, tmp_path: Path) -> None:
    other = ssl.create_default_context(cafile=str(Authority(tmp_path, "other").file))
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(node.member.address, tls=other).register("web", "1.1.1.2")


def test_nothing_before_tls_1_2_is_spoken(node: TlsNode) -> None:
    context = ssl.create_default_context(cafile=str(node.authority.file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="deprecated"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Client(node.member.address, tls=context).metrics()


def test_plain_http_is_told_what_the_port_speaks(node: TlsNode) -> None:
    before = node.member.client.metrics()["tlsPlainRefused"]
    answer = Client(node.member.address).register("web", "1.1.1.3")
    assert (answer.status, answer.body) == (400, b"this port speaks TLS: use https")
    assert node.member.client.metrics()["tlsPlainRefused"] == before + 1
    assert "1.1.1.3:8080" not in node.member.client.hosts("web")
