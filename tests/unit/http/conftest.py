"""A node's HTTP frontend, with its test client."""

import pytest
from flask.testing import FlaskClient

from app.http.factory import create_app
from tests.support.fake_node import FakeNode


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def client(node: FakeNode) -> FlaskClient:
    return create_app(node).test_client()
