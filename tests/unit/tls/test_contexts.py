"""Handshakes of a node's contexts with each other and with others, in memory."""

import ssl
from pathlib import Path

import pytest

from app.config.tls_settings import HttpTls
from app.machine.tls.certificate import CertificateError
from app.machine.tls.contexts import make_contexts
from tests.support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings(folder: Path, trusted: Path, *, mutual: bool = False) -> HttpTls:
    return HttpTls(folder / "chain.pem", folder / "key.pem", trusted, mutual=mutual, compatible=False)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "127.0.0.1") -> ssl.SSLObject:
    """The server's side of a connection, with a first byte of the client's behind the handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    done = set[ssl.SSLObject]()
    for _ in range(10):
        for side in sides:
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    sides[0].write(b"x")
    assert sides[1].read(1) == b"x"
    return sides[1]


def test_members_of_one_authority_trust_each_other_by_tls_1_3(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    contexts = make_contexts(settings(tmp_path, authority.file))
    seen = shake_hands(contexts.client, contexts.server)
    assert seen.version() == "TLSv1.3"
    assert seen.getpeercert() is None, "none is asked for"


@pytest.mark.parametrize(("host", "names"), [("127.0.0.1", ("10.0.0.1",)), ("member-1.local", ("member-2.local",))])
def test_a_certificate_of_another_host_is_refused(
    authority: Authority, tmp_path: Path, host: str, names: tuple[str, ...]
) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem", names=names)
    contexts = make_contexts(settings(tmp_path, authority.file))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|not valid for"):
        shake_hands(contexts.client, contexts.server, host)
    shake_hands(contexts.client, contexts.server, names[0])


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    contexts = make_contexts(settings(tmp_path, Authority(tmp_path, "other").file))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(contexts.client, contexts.server)


def test_a_certificate_may_be_trusted_itself(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    contexts = make_contexts(settings(tmp_path, tmp_path / "chain.pem"))
    shake_hands(contexts.client, contexts.server)


def test_what_is_trusted_by_the_web_is_not_trusted_by_members(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    assert make_contexts(settings(tmp_path, authority.file)).client.cert_store_stats()["x509"] == 1


def test_mutual_tls_shows_members_and_lets_others_in_without(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    contexts = make_contexts(settings(tmp_path, authority.file, mutual=True))
    assert shake_hands(contexts.client, contexts.server).getpeercert()
    other = ssl.create_default_context(cafile=str(authority.file))
    assert not shake_hands(other, contexts.server).getpeercert()


def test_a_session_is_never_taken_up_again(authority: Authority, tmp_path: Path) -> None:
    """It would keep the certificates of its begin."""
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    server = make_contexts(settings(tmp_path, authority.file)).server
    client = ssl.create_default_context(cafile=str(authority.file))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    seen = shake_hands(client, server)
    assert seen.version() == "TLSv1.2"
    assert not seen.session_reused
    assert server.options & ssl.OP_NO_TICKET
    assert server.num_tickets == 0


@pytest.mark.parametrize("cipher", ["AES128-SHA", "DHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256"])
def test_ciphers_without_forward_secrecy_or_authentication_are_refused(
    authority: Authority, tmp_path: Path, cipher: str
) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    client = ssl.create_default_context(cafile=str(authority.file))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(cipher)
    with pytest.raises(ssl.SSLError):
        shake_hands(client, make_contexts(settings(tmp_path, authority.file)).server)


def test_trusted_certificates_that_cannot_be_read_are_named(authority: Authority, tmp_path: Path) -> None:
    authority.issue(tmp_path / "chain.pem", tmp_path / "key.pem")
    authority.file.write_bytes(b"nothing")
    with pytest.raises(CertificateError, match=r"authority\.pem has no complete chain of certificates"):
        make_contexts(settings(tmp_path, authority.file))
