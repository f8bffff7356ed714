"""Ports for embedded nodes: three that belong together, held from the look on, or other ones where that was late."""

import socket
from contextlib import closing
from typing import Any

import pytest

from app.testing import Cluster, Registry
from app.tools.embedded import embedded_cluster, embedded_registry
from app.tools.embedded.errors_of_use import PortTaken, UseError
from app.tools.embedded.free_ports import HOST, bind, bind_free


def listening(port: int) -> socket.socket:
    return socket.create_server((HOST, port))


def test_a_port_that_was_found_is_nobody_elses() -> None:
    with closing(bind_free()) as opened, pytest.raises(PortTaken):
        bind(opened.getsockname()[1])


@pytest.mark.parametrize("offset", [0, 1_000, 1_001])
def test_a_port_is_free_if_those_of_grpc_are_too(offset: int) -> None:
    with closing(bind_free()) as opened:
        port = opened.getsockname()[1]
    with closing(listening(port + offset)), pytest.raises(PortTaken, match=f"{port}, {port + 1_000} or {port + 1_001}"):
        bind(port)


@pytest.mark.parametrize("port", [-1, 0, 64_535])
def test_what_is_no_port_of_a_node(port: int) -> None:
    with pytest.raises(UseError, match="from 1 to 64534"):
        bind(port)


class Thief:
    """In place of the look for free ports: a port of gRPC is taken right after the first looks."""

    def __init__(self, thefts: int) -> None:
        self.taken: list[socket.socket] = []
        self._thefts = thefts

    def __call__(self) -> socket.socket:
        opened = bind_free()
        if len(self.taken) < self._thefts:
            self.taken.append(listening(opened.getsockname()[1] + 1_000))
        return opened

    def close(self) -> None:
        for one in self.taken:
            one.close()


def test_a_node_whose_port_was_taken_meanwhile_starts_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Thief(2)) as thief:
        monkeypatch.setattr(embedded_registry, "bind_free", thief)
        with Registry() as registry:
            registry.register("orders")
            assert registry.port + 1_000 not in [one.getsockname()[1] for one in thief.taken]
    with closing(Thief(1)) as thief:
        monkeypatch.setattr(embedded_cluster, "bind_free", thief)
        with Cluster(2) as cluster:
            cluster[0].register("orders")
            assert cluster.wait_for_instances("orders")


def test_after_some_starts_in_vain_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: tuple[tuple[Any, Any], ...] = ((embedded_registry, Registry), (embedded_cluster, lambda: Cluster(2)))
    for module, make in kinds:
        with closing(Thief(1_000)) as thief:
            monkeypatch.setattr(module, "bind_free", thief)
            with pytest.raises(PortTaken, match="cannot serve gRPC on"), make():
                raise AssertionError("it serves")
            assert len(thief.taken) >= embedded_registry.START_TRIES
