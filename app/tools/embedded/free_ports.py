"""Ports on loopback for a node: that of HTTP, kept bound, and the two of gRPC above it."""

import random
import socket
from contextlib import ExitStack

from app.config.rpc_settings import RPC_CLUSTER_OFFSET, RPC_SDK_OFFSET
from app.tools.embedded.errors_of_use import PortTaken, UseError

HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 13_000, 18_900
"""Ports below those of outgoing connections, one of which could take a member's port while the member is down.

With the gRPC ports above them they end below 20,000, where the ports of this project's own tests begin.
"""
TRIES = 200
BACKLOG = 256


def bind(port: int) -> socket.socket:
    """Return a socket that listens on the port, for HTTP.

    Raises:
        PortTaken: that port, or one of its gRPC ports, is in use.
        UseError: the number cannot be a node's port.
    """
    if not 0 < port <= 65_535 - RPC_CLUSTER_OFFSET:
        raise UseError(f"port={port}: from 1 to {65_535 - RPC_CLUSTER_OFFSET}, as gRPC has two ports above it")
    with ExitStack() as others:
        try:
            for offset in (RPC_SDK_OFFSET, RPC_CLUSTER_OFFSET):
                others.enter_context(_bound(port + offset))
            opened = _bound(port)
            opened.listen(BACKLOG)  # at once, so that no other node takes the port for free
            return opened
        except OSError:
            taken = f"{port}, {port + RPC_SDK_OFFSET} or {port + RPC_CLUSTER_OFFSET}"
            raise PortTaken(f"port {taken} of {HOST} is in use; without port=... free ones are chosen") from None


def bind_free() -> socket.socket:
    """Return a socket for HTTP on a port that was free, as were its gRPC ports.

    Raises:
        UseError: this machine has hardly a free port.
    """
    for _ in range(TRIES):
        try:
            return bind(random.randrange(FIRST_PORT, LAST_PORT))
        except PortTaken:
            continue
    raise UseError(f"no free ports were found on {HOST}; {TRIES} were tried")


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
    except OSError:
        made.close()
        raise
    return made
