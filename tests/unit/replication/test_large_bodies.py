"""Bodies of peers that unpack to many megabytes."""

import gzip
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.naming.model.nacos_errors import Unavailable
from app.replication import large_bodies
from app.replication.large_bodies import AT_ONCE_MAX, LARGE_BYTES, WAITING_MAX, LargeBodies
from distro.model.errors import CodecError
from tests.support.processes import eventually

SIZE_MAX = 16 * LARGE_BYTES
LARGE = b'{"k":"%b"}' % (b"v" * LARGE_BYTES)


def zipped(plain: bytes, claimed: int | None = None) -> bytes:
    """The gzip of it, which tells another length at its end if ``claimed``."""
    body = gzip.compress(plain, 1, mtime=0)
    return body if claimed is None else body[:-4] + claimed.to_bytes(4, "little")


def noise(size: int) -> bytes:
    """Bytes that gzip packs to about half: hexadecimal digits of a checksum chain."""
    parts, value = list[bytes](), 1
    for _ in range(size // 8 + 1):
        value = zlib.crc32(value.to_bytes(4, "little"))
        parts.append(b"%08x" % value)
    return b"".join(parts)[:size]


@pytest.mark.parametrize("body", [b"{}", zipped(b"{}"), LARGE])
def test_a_body_is_unpacked(body: bytes) -> None:
    with LargeBodies(SIZE_MAX).unpacked(body) as plain:
        assert plain in (b"{}", LARGE)


def test_a_length_that_is_told_too_small_refuses_the_body() -> None:
    plain = noise(LARGE_BYTES + 1)
    with pytest.raises(CodecError, match="cut short"), LargeBodies(SIZE_MAX).unpacked(zipped(plain, 1_000)):
        pass


@pytest.mark.parametrize("body", [LARGE, zipped(noise(LARGE_BYTES))])
def test_two_large_bodies_at_a_time_and_small_ones_beside_them(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_bodies, "WAIT_S", 0.01)
    bodies, inside, leave = LargeBodies(SIZE_MAX), threading.Barrier(AT_ONCE_MAX + 1), threading.Event()

    def read() -> None:
        with bodies.unpacked(body):
            inside.wait(60)
            assert leave.wait(60)

    with ThreadPoolExecutor(AT_ONCE_MAX) as pool:
        readers = [pool.submit(read) for _ in range(AT_ONCE_MAX)]
        inside.wait(60)
        with pytest.raises(Unavailable), bodies.unpacked(body):
            pass
        with bodies.unpacked(b"{}") as plain:
            assert plain == b"{}"
        leave.set()
        for one in readers:
            one.result(60)
    with bodies.unpacked(body) as plain:
        assert len(plain) >= LARGE_BYTES


def test_no_more_than_a_few_large_bodies_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds a thread of a peer's calls."""
    monkeypatch.setattr(large_bodies, "WAIT_S", 600.0)
    bodies, leave = LargeBodies(SIZE_MAX), threading.Event()
    inside = threading.Semaphore(0)

    def read() -> None:
        with bodies.unpacked(LARGE):
            inside.release()
            assert leave.wait(60)

    with ThreadPoolExecutor(AT_ONCE_MAX + WAITING_MAX) as pool:
        readers = [pool.submit(read) for _ in range(AT_ONCE_MAX + WAITING_MAX)]
        for _ in range(AT_ONCE_MAX):
            assert inside.acquire(timeout=60)
        eventually(lambda: bodies._waiting._value == 0)  # type: ignore[attr-defined]
        with pytest.raises(Unavailable), bodies.unpacked(LARGE):
            pass
        leave.set()
        for one in readers:
            one.result(60)
    with bodies.unpacked(LARGE) as plain:
        assert plain == LARGE


def test_a_body_that_cannot_be_unpacked_gives_its_turn_back() -> None:
    bodies = LargeBodies(SIZE_MAX)
    broken = bytearray(zipped(noise(LARGE_BYTES)))
    broken[len(broken) // 2] ^= 0xFF
    for _ in range(AT_ONCE_MAX + 1):
        with pytest.raises(CodecError), bodies.unpacked(bytes(broken)):
            pass
    with bodies.unpacked(LARGE) as plain:
        assert plain == LARGE
