"""An HTTP frontend with its test client."""

from functools import cache
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.http.factory import create_app
from tests.support.fake_node import FakeNode


class CurrentNode:
    """Stands for the node of the test that runs, in an application that tests share: to make one takes 100 ms."""

    def __init__(self) -> None:
        self.node = FakeNode()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


@cache
def shared_app() -> tuple[Flask, CurrentNode]:
    """The application for nodes with default settings."""
    current = CurrentNode()
    return create_app(current), current  # type: ignore[arg-type]


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def client(node: FakeNode) -> FlaskClient:
    app, current = shared_app()
    if node.settings != current.node.settings:
        app = create_app(node)
    current.node = node
    return app.test_client()
