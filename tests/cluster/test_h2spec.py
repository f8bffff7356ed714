"""h2spec, the conformance tests of HTTP/2, at both gRPC ports, plain and over TLS."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.environments import NotInstallable, install_h2spec
from tests.support.certificates import make_certificate, needs_openssl, tls_settings
from tests.support.processes import Member, clean_environ, free_ports

TESTS = 145
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def h2spec() -> str:
    if shutil.which("go") is None:
        pytest.skip("go is not in the path")
    try:
        return install_h2spec()
    except NotInstallable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=["plain", pytest.param("tls", marks=needs_openssl)])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, list[str]]]:
    """The HTTP port of a node, and what h2spec has to be told of its gRPC ports."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    settings, options = {"rollcall.announce": "false"}, []
    if request.param == "tls":
        files = make_certificate(folder)
        settings |= tls_settings("server", *files) | tls_settings("peer", *files)
        options = ["--tls", "--insecure"]
    [port] = free_ports(1)
    member = Member(port, folder / "node", settings)
    try:
        member.start()
        member.wait_ready()
        yield port, options
        member.stop()
    finally:
        member.end()
    assert "Traceback" not in member.log_text(), member.log_text()[-6_000:]


@pytest.mark.parametrize("offset", [1_000, 1_001], ids=["sdk", "members"])
def test_all_of_h2spec_passes(h2spec: str, node: tuple[int, list[str]], offset: int) -> None:
    port, options = node
    command = [h2spec, "--host", "127.0.0.1", "--port", str(port + offset), "--timeout", "5", *options]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=clean_environ(), check=False
    )  # fmt: skip
    assert f"{TESTS} tests, {TESTS} passed, 0 skipped, 0 failed" in ran.stdout, ran.stdout[-6_000:]
    assert ran.returncode == 0
