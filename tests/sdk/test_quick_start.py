"""The programs of docs/quick-start.md, as a reader copies them: each does with its library what the page says."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.conftest import Environments
from tests.sdk.environments import Environment, NotInstallable
from tests.support.processes import HANG_S, ClusterProcesses, Member, eventually
from tests.support.snippets import ROOT, Snippet, snippets_of

HTTP = {"java-1": "java", "python-1": "python", "go-1": "go", "node": "node"}
GRPC = {"java-2": "java", "java-3": "java-3", "python-2": "python-2", "python-3": "python-3", "go-2": "go"}
"""The environment of each program of the page, over HTTP and over gRPC."""
BUILD_TIMEOUT_S = 300.0
PRINTED = "10.0.0.7:8080\n"
PROGRAMS = {name: one for one in snippets_of(ROOT / "docs" / "quick-start.md") for name in one.programs}

# With the installation of all libraries, which is only once.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """A node alone, for programs that come one after the other."""
    cluster = ClusterProcesses(tmp_path_factory.mktemp("node"), 1, {})
    try:
        cluster.start()
        yield cluster.members[0]
    finally:
        cluster.end()
    cluster.assert_no_traceback()


def test_each_library_has_its_program() -> None:
    assert PROGRAMS.keys() == HTTP.keys() | GRPC.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_prints_what_the_page_says(
    name: str, node: Member, environments: Environments, grpc_environments: Environments, tmp_path: Path
) -> None:
    environment = environments[HTTP[name]] if name in HTTP else grpc_environments[GRPC[name]]
    if isinstance(environment, NotInstallable):
        pytest.skip(str(environment))
    removed = removals(node)
    command = command_of(PROGRAMS[name], at(PROGRAMS[name].text, node), environment, tmp_path)
    done = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env={**environment.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr[-2_000:]
    eventually(lambda: removals(node) > removed)
    # A beat that was under way registers it again, for as long as an instance without beats is kept.
    eventually(lambda: not node.client.hosts("orders"))


def removals(node: Member) -> int:
    """How many instances were taken back, as the audit trail tells."""
    trail = node.data / "logs" / "audit.log"
    return trail.read_text().count('"what":"instance.remove"') if trail.exists() else 0


def at(text: str, node: Member) -> str:
    """The program with the node's address in place of the page's."""
    host, _, port = node.address.partition(":")
    for old, new in (("127.0.0.1:8848", node.address), ('"127.0.0.1", 8848', f'"{host}", {port}')):
        text = text.replace(old, new)
    assert port in text
    return text


def command_of(snippet: Snippet, text: str, environment: Environment, folder: Path) -> list[str]:
    """Write the program into the folder; return the words that run it with the library of the environment."""
    names = {"java": "QuickStart.java", "python": "quick_start.py", "js": "quick_start.js", "go": "main.go"}
    source = folder / names[snippet.language]
    source.write_text(text, encoding="utf-8")
    if snippet.language != "go":
        # The last word names our own program, for which the environment was made.
        return [*environment.command[:-1], str(source)]
    binary = Path(environment.command[0])
    installed = binary.parents[1]
    for name in ("go.mod", "go.sum"):
        (folder / name).write_bytes((installed / name).read_bytes())
    # All that it needs was fetched when the environment was made.
    environ = {**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    build = ["go", "build", "-buildvcs=false", "-o", "quick-start", "."]
    done = subprocess.run(
        build, check=False, cwd=folder, env=environ, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return [str(folder / "quick-start")]
