"""What a failed connection to a member means: never plain text where TLS was not refused as such."""

import logging
import ssl
from pathlib import Path

import pytest

from app.config.tls_settings import HttpTls
from app.machine.tls.contexts import TlsContexts, make_contexts
from app.machine.tls.member_tls import LOG_AGAIN_MS, MEMBERS_MAX, PLAIN_MS, MemberTls
from app.machine.tls.watched import TlsStats, WatchedFiles
from tests.support.certificates import Authority

NO_TLS = ssl.SSLError("wrong version number")
MEMBER = ("10.0.0.1", 8848)


class Calling:
    """A member's view of the others, at a time that the test sets."""

    def __init__(self, folder: Path, *, compatible: bool) -> None:
        authority = Authority(folder)
        authority.issue(folder / "chain.pem", folder / "key.pem")
        settings = HttpTls(folder / "chain.pem", folder / "key.pem", authority.file, False, compatible)
        self.now_ms = 0
        self.stats = TlsStats()
        self.files: WatchedFiles[TlsContexts] = WatchedFiles((), lambda: make_contexts(settings), self.stats)
        self.tls = MemberTls(self.files, self.stats, lambda: self.now_ms, compatible=compatible)


@pytest.fixture
def moving(tmp_path: Path) -> Calling:
    return Calling(tmp_path, compatible=True)


def test_a_member_that_speaks_no_tls_is_called_plainly_for_a_while(moving: Calling) -> None:
    assert not moving.tls.is_plain(*MEMBER)
    assert moving.tls.on_failure(*MEMBER, NO_TLS)
    assert moving.tls.is_plain(*MEMBER)
    assert not moving.tls.is_plain("10.0.0.2", 8848)
    moving.now_ms += PLAIN_MS
    assert not moving.tls.is_plain(*MEMBER), "it may speak TLS by now"
    assert moving.stats.tls_plain_calls == 2


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("x")
    error.verify_message = "certificate has expired"
    return error


@pytest.mark.parametrize("error", [untrusted(), ConnectionRefusedError(), TimeoutError(), BrokenPipeError()], ids=repr)
def test_no_other_failure_makes_a_call_plain(moving: Calling, error: Exception) -> None:
    assert not moving.tls.on_failure(*MEMBER, error)
    assert not moving.tls.is_plain(*MEMBER)


@pytest.mark.parametrize("error", [NO_TLS, ConnectionResetError()])
def test_without_compatibility_nothing_makes_a_call_plain(tmp_path: Path, error: Exception) -> None:
    strict = Calling(tmp_path, compatible=False)
    assert not strict.tls.on_failure(*MEMBER, error)
    assert not strict.tls.is_plain(*MEMBER)
    assert strict.stats.tls_plain_calls == 0


def test_a_certificate_that_is_refused_is_counted_and_named_once_a_minute(
    moving: Calling, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        moving.tls.on_failure(*MEMBER, untrusted())
    moving.tls.on_failure("::1", 8848, untrusted())
    assert caplog.messages == [
        "the certificate of member 10.0.0.1:8848 is refused: certificate has expired",
        "the certificate of member [::1]:8848 is refused: certificate has expired",
    ]
    moving.now_ms += LOG_AGAIN_MS
    moving.tls.on_failure(*MEMBER, untrusted())
    assert len(caplog.messages) == 3
    assert moving.stats.tls_members_refused == 5


def test_what_is_remembered_has_a_bound(moving: Calling, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        for number in range(MEMBERS_MAX + 10):
            moving.tls.on_failure("10.0.0.1", number, NO_TLS)
            moving.tls.on_failure("10.0.0.1", number, untrusted())
    assert len(moving.tls._plain_until_ms) <= MEMBERS_MAX
    assert len(moving.tls._logged_ms) <= MEMBERS_MAX
