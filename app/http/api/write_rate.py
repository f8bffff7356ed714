"""Counts the writes of a client's address, where they are limited."""

from app.http.api.agents import is_peer
from app.http.api.call import Call


def count_write(call: Call) -> None:
    """Count a write against the address of its client. What a member passed on was counted there.

    Raises:
        TooManyRequests: the address has done as many as it may.
    """
    if call.address is not None and not (call.caller.is_member and is_peer(call.agent)):
        call.address.take()
