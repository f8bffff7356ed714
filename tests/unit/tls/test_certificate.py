"""A certificate and its key from files: what is taken, and what each fault is called."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from app.machine.tls.certificate import FILE_BYTES_MAX, CertificateError, read_certificate
from tests.support.certificates import Authority


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    chain, private_key = tmp_path / "chain.pem", tmp_path / "key.pem"
    Authority(tmp_path).issue(chain, private_key)
    return chain, private_key


def test_the_first_of_a_chain_to_end_says_when(files: tuple[Path, Path], tmp_path: Path) -> None:
    alone = read_certificate(*files)
    assert (alone.subject, alone.is_valid()) == ("CN=member", True)
    short = tmp_path / "short.pem"
    Authority(tmp_path, "second").issue(short, tmp_path / "short-key.pem", to_days=1)
    files[0].write_bytes(files[0].read_bytes() + short.read_bytes())
    assert read_certificate(*files).ends_s == pytest.approx(alone.ends_s - 86_400, abs=60)


def test_one_that_has_ended_or_not_begun_is_read_and_not_valid(files: tuple[Path, Path], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days in ({"from_days": -2, "to_days": -1}, {"from_days": 1, "to_days": 2}):
        authority.issue(*files, **days)
        assert not read_certificate(*files).is_valid()


def _encrypted(_: bytes) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


@pytest.mark.parametrize(
    ("which", "broken", "text"),
    [
        (0, lambda pem: pem[: len(pem) // 2], "{chain} has no complete chain of certificates in PEM"),
        (0, lambda pem: b"", "{chain} has no complete chain of certificates in PEM"),
        (0, lambda pem: b"x" * (FILE_BYTES_MAX + 1), "{chain} is over 1048576 bytes"),
        (0, None, "{chain} cannot be read: No such file or directory"),
        (1, lambda pem: pem[: len(pem) // 2], "{key} has no private key in PEM"),
        (1, lambda pem: b"", "{key} has no private key in PEM"),
        (1, _encrypted, "{key} needs a password, which is not supported"),
        (1, None, "{key} cannot be read: No such file or directory"),
    ],
)
def test_a_fault_is_named_with_its_file(
    files: tuple[Path, Path], which: int, broken: Callable[[bytes], bytes] | None, text: str
) -> None:
    if broken is None:
        files[which].unlink()
    else:
        files[which].write_bytes(broken(files[which].read_bytes()))
    with pytest.raises(CertificateError) as error:
        read_certificate(*files)
    assert str(error.value) == text.format(chain=files[0], key=files[1])


def test_a_key_of_another_certificate_is_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    Authority(tmp_path).issue(tmp_path / "other.pem", files[1])
    with pytest.raises(CertificateError, match=r"key\.pem is not the key of the certificate in .*chain\.pem"):
        read_certificate(*files)


def test_nothing_of_a_key_is_shown(files: tuple[Path, Path]) -> None:
    assert "PRIVATE" not in repr(read_certificate(*files))
