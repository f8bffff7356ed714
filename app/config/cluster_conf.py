"""The parser of member lists: cluster.conf, and the setting nacos.member.list."""

from app.config.addresses import join_address, spelling, split_address
from app.config.settings_keys import SettingError
from app.languages.catalogues import N_
from app.languages.phrases import phrase

_ALLOWED = phrase(
    "ip, ip:port, host:port or [ipv6]:port, one per line, or several separated by commas; # starts a comment"
)
_LIST = phrase("the member list")


def parse_members(text: str, origin: str = _LIST) -> tuple[str, ...]:
    """Return the listed members as ``host:port``, in order. Of several spellings of one member the first counts.

    A host stays as written, and no name is resolved: members compare each other's addresses as text.

    Raises:
        SettingError: an entry is not an address; the text names ``origin`` and the line.
    """
    members: dict[str, str] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        for entry in filter(None, (part.strip() for part in line.split("#", 1)[0].split(","))):
            try:
                # Sample files of Nacos carry ``?raft_port=8807``, which Nacos 1.4 does not read either.
                host, port = split_address(entry.split("?", 1)[0])
            except ValueError as error:
                line_of = phrase("%(origin)s, line %(number)s", origin=origin, number=number)
                text = N_("%(where)s: %(entry)s is not a member address (%(error)s); allowed: %(allowed)s")
                values = {"where": line_of if len(lines) > 1 else origin, "entry": repr(entry), "allowed": _ALLOWED}
                raise SettingError(phrase(text, error=error, **values)) from None
            member = join_address(host, port)
            members.setdefault(spelling(member), member)
    return tuple(members.values())
