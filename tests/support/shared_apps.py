"""WSGI applications that tests hand on to each other: to make one of its 400 routes takes 100 ms of CPU time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask

from app.http.blueprints import MODULES
from app.http.factory import create_app
from tests.support.fake_node import FakeNode

assert MODULES, "their import fills the table of routes"


class CurrentNode:
    """Stands for the node of the test that runs, in an application that tests share."""

    def __init__(self, node: FakeNode) -> None:
        self.node: FakeNode | None = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


_FREE: dict[str, list[tuple[Flask, CurrentNode]]] = {}
"""Applications that no node has now, by context path: the only setting that an application has built in."""


@contextmanager
def app_for(node: FakeNode) -> Iterator[Flask]:
    """Give the application of a node until the block ends. Two nodes at one time have two applications."""
    free = _FREE.setdefault(node.settings.context_path, [])
    if free:
        app, current = free.pop()
        current.node = node
    else:
        current = CurrentNode(node)
        app = create_app(current)  # type: ignore[arg-type]
    try:
        yield app
    finally:
        current.node = None
        free.append((app, current))
