"""What links cost a node that has none."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.link_settings import LinkSource
from tests.support.fake_node import FakeNode, make_settings
from tests.support.walk import Step, WalkRecorder


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FakeNode]:
    """A node whose file has settings, but no link."""
    file = tmp_path / "application.properties"
    file.write_text("nacos.naming.expireInstance=true\n")
    node = FakeNode(settings=replace(make_settings(), links=LinkSource(file=file)))
    yield node
    assert node.links.stop()


def test_each_second_takes_one_look_at_the_file(node: FakeNode) -> None:
    node.links.tick(0)
    recorder, steps, threads = WalkRecorder(), list[Step](), threading.enumerate()

    def pass_a_second() -> None:
        steps.extend(step for walk in recorder.record(lambda: node.links.tick(1_000)).values() for step in walk.steps)

    with recorder.watched():
        thread = threading.Thread(target=pass_a_second)
        thread.start()
        thread.join()
    assert [step.function for step in steps] == ["NodeLinks.tick", "LinkSource.stamp", "file_stamp"]
    assert threading.enumerate() == threads
