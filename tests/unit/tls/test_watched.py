"""Files that change under a running node: which change is taken, and what is said of one that is not."""

import logging
import os
import ssl
import time
from pathlib import Path

import pytest

from app.machine.tls import watched
from app.machine.tls.certificate import read_certificate
from app.machine.tls.node_tls import PortCertificate
from app.machine.tls.watched import LOOK_MS, CertificateWatch, TlsStats, WatchedFiles
from tests.support.certificates import Authority


class Watching:
    """A certificate of one test, its files and their watch."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.private_key = folder / "chain.pem", folder / "key.pem"
        self.authority = Authority(folder)
        self.stats = TlsStats()
        self._now_ms = 0
        self.renew()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # what is made of the files does not count here
        self.files = WatchedFiles(
            (self.chain, self.private_key),
            lambda: PortCertificate(read_certificate(self.chain, self.private_key), context),
            self.stats,
        )
        self.watch = CertificateWatch([self.files], self.stats)

    def renew(self, **days: float) -> None:
        self.authority.issue(self.chain, self.private_key, **days)

    def look(self) -> None:
        due_ms = self.watch.tick(self._now_ms)
        assert due_ms == self._now_ms + LOOK_MS
        self._now_ms = due_ms

    @property
    def is_newest(self) -> bool:
        return self.files.current.certificate.chain == self.chain.read_bytes()


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path)


def test_files_that_stay_are_not_read_again(watching: Watching) -> None:
    current = watching.files.current
    watching.look()
    assert watching.files.current is current
    assert watching.stats.tls_reloads == 0


def test_a_new_certificate_is_taken_at_the_next_look(watching: Watching) -> None:
    watching.renew(to_days=3)
    assert not watching.is_newest
    watching.look()
    assert watching.is_newest
    assert (watching.stats.tls_reloads, watching.stats.tls_reloads_failed) == (1, 0)
    assert watching.stats.tls_certificate_ends_s == pytest.approx(time.time() + 3 * 86_400, abs=60)


def test_half_a_change_waits_for_its_other_half_without_a_word(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    old_key = watching.private_key.read_bytes()
    watching.renew()
    new_key = watching.private_key.read_bytes()
    watching.private_key.write_bytes(old_key)
    watching.look()
    assert not watching.is_newest
    watching.private_key.write_bytes(new_key)
    with caplog.at_level(logging.WARNING):
        watching.look()
    assert watching.is_newest
    assert watching.stats.tls_reloads_failed == 0
    assert "not used" not in caplog.text


def test_a_change_that_stays_broken_is_said_and_counted_once(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    current = watching.files.current
    watching.chain.write_bytes(b"broken")
    for _ in range(5):
        watching.look()
    assert watching.files.current is current
    assert watching.stats.tls_reloads_failed == 1
    assert caplog.text.count("the changed certificate files cannot be used; the previous files stay in use") == 1
    watching.chain.unlink()
    for _ in range(3):
        watching.look()
    assert watching.stats.tls_reloads_failed == 2, "it is another fault"
    watching.renew()
    watching.look()
    assert watching.is_newest


def test_one_that_has_expired_does_not_take_the_place_of_one_that_has_not(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    watching.renew(from_days=-2, to_days=-1)
    watching.look()
    watching.look()
    assert not watching.is_newest
    assert "is not valid today, but the one in use is" in caplog.text


def test_one_that_has_expired_may_follow_another_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(tmp_path)
    later_s = time.time() + 30 * 86_400
    monkeypatch.setattr(time, "time", lambda: later_s)
    watching.renew()
    watching.look()
    assert watching.is_newest, "it may be nearer to what the others take"


def test_an_end_that_is_near_is_warned_of_once_a_day(
    watching: Watching, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.renew(to_days=31)
    watching.look()
    watching.look()
    assert caplog.text.count("ends on") <= 1, "of the first one, which has two days"
    caplog.clear()
    begun_s = time.time()
    for hours in range(0, 72, 8):
        monkeypatch.setattr(time, "time", lambda hours=hours: begun_s + 86_500 + hours * 3_600)
        watching.look()
    assert caplog.text.count("in 29 days") == 1
    assert caplog.text.count("ends on") == 3
    monkeypatch.setattr(time, "time", lambda: begun_s + 32 * 86_400)
    watching.look()
    assert "HAS EXPIRED on" in caplog.text


def test_a_file_that_is_written_while_it_is_read_is_read_again(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.renew()
    stamps: list[Path] = []
    stamp_of = watched.file_stamp

    def stamp(path: Path) -> object:
        stamps.append(path)
        if len(stamps) == 3:  # the first of the second stamp, behind the reading
            watching.renew()
            os.utime(watching.chain, ns=(1, 1))
        return stamp_of(path)

    monkeypatch.setattr(watched, "file_stamp", stamp)
    watching.look()
    assert watching.stats.tls_reloads == 0
    watching.look()
    assert watching.is_newest
