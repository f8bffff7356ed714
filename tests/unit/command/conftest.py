"""Commands in this process, and a node that they ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.config.client_config import CLIENT_VARIABLES
from tests.support.command_node import Commands, served_node, without_configuration
from tests.support.fake_node import FakeNode


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home folder without any configuration."""
    without_configuration(monkeypatch, tmp_path, sorted(CLIENT_VARIABLES))
    return tmp_path


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def command(node: FakeNode, home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    """Runs commands that ask ``node``."""
    commands = Commands(capsys)
    with served_node(node) as address:
        commands.server = address
        yield commands
