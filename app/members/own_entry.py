"""This node in a member list, which may spell its address differently, name it twice, or not at all."""

import ipaddress
import logging

from app.config.addresses import is_this_machine, is_wildcard, spelling, split_address
from app.members.member_ips import Resolve, literal, look_up

LOG = logging.getLogger(__name__)


class OwnEntry:
    """Replaces other spellings of this node's address in lists by the address itself. For one thread at a time."""

    def __init__(self, self_address: str, host: str, resolve: Resolve | None = None) -> None:
        """``host``: the host on which this node listens."""
        self._self_address = self_address
        self._host = host
        self._resolve = resolve or look_up
        self._last: tuple[tuple[str, ...], tuple[str, ...], bool] | None = None
        """The last list and its result: names in it are not resolved again."""
        self._told: object = None
        """The last logged problem. Each one is logged once."""

    def put_into(self, found: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
        """Return a list with this node once, under its address since its start; and whether it was in the list.

        Other members know this node by its spelling in their lists. If that differs, a restart is needed, and a log
        line says so.
        """
        own, last = self._self_address, self._last
        if last is not None and last[0] == found:
            return last[1], last[2]
        same = {one for one in found if spelling(one) == spelling(own)}
        if not same:
            same = {one for one in found if self._is_this_node(one)}
        listed = tuple(dict.fromkeys(own if one in same else one for one in found))
        self._tell(same - {own} if own not in found else set(), own in listed)
        members = listed if own in listed else (*listed, own)
        self._last = (found, members, own in listed)
        return members, own in listed

    def _tell(self, others: set[str], is_listed: bool) -> None:
        told = (frozenset(others), is_listed)
        if told == self._told:
            return
        self._told = told
        if others:
            LOG.warning(
                "the member list has this node, %s, as %s, and so do the other members: restart this node, or set "
                "nacos.server.ip to the host in the list",
                self._self_address,
                ", ".join(sorted(others)),
            )
        elif not is_listed:
            LOG.warning("this node, %s, is not in the member list, and was added to its own", self._self_address)

    def _is_this_node(self, member: str) -> bool:
        host, port = split_address(member)
        if port != split_address(self._self_address)[1]:
            return False
        if is_wildcard(self._host):
            return is_this_machine(host)
        own = self._ips(self._self_address) | self._ips(self._host)
        return bool(own & self._ips(member))

    def _ips(self, address: str) -> frozenset[str]:
        if (known := _literal_host(address)) is not None:
            return known
        try:
            return self._resolve(split_address(address)[0])
        except (OSError, UnicodeError, ValueError):
            return frozenset()


def _literal_host(address: str) -> frozenset[str] | None:
    try:
        return frozenset({str(ipaddress.ip_address(address))})
    except ValueError:
        return literal(address)
