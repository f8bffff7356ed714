"""This cluster as one of its members shows it: the link to the Nacos, and the instances here by the Nacos's names."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.config.link_fields import IN, NACOS, NACOS_1, OUT
from app.config.link_settings import LinkFilter, name_here, name_there
from app.languages.command_texts import gettext
from app.languages.phrases import phrase
from app.naming.model.foreign import ORIGIN
from app.naming.model.keys import split_name
from app.rows.rows import RowKind
from app.tools.audit.client.http_client import CallError, MemberClient
from app.tools.audit.compare.compare import is_seen
from app.tools.audit.dump.sources import take_linked
from app.tools.audit.format.manifest import Link
from app.tools.command.asking.exits import CommandError, ExitCode
from app.tools.command.migrate.nacos_view import Address, ServiceName

LINKS = "/v1/ns/link/list"


class LinkAtMember(NamedTuple):
    """A link as one member has it. ``problem`` says why it is silent, and is empty if it is heard."""

    member: str
    name: str
    direction: str
    servers: tuple[str, ...]
    problem: str
    refusal: str


@dataclass(frozen=True, slots=True)
class ClusterLinks:
    """The links to any Nacos, and the members: those that answered, and why the others did not."""

    links: tuple[LinkAtMember, ...]
    members: tuple[str, ...]
    absent: tuple[str, ...]

    def named(self, name: str) -> tuple[LinkAtMember, ...]:
        """Return a link as each member has it."""
        return tuple(one for one in self.links if one.name == name)


@dataclass(slots=True)
class MemberView:
    """The link to the Nacos, if there is one, and the instances by the names of the Nacos."""

    cluster: str
    """The id of this cluster, the label of the instances that its links register."""
    link: Link | None
    at_members: tuple[LinkAtMember, ...]
    links: ClusterLinks
    local: dict[ServiceName, set[Address]] = field(default_factory=dict)
    brought: dict[ServiceName, set[Address]] = field(default_factory=dict)

    @property
    def brings(self) -> bool:
        """Return whether services of the Nacos come here."""
        return any(one.direction != OUT for one in self.at_members)

    @property
    def sends(self) -> bool:
        """Return whether local instances are registered at the Nacos."""
        return any(one.direction != IN for one in self.at_members)

    def takes(self, name: ServiceName) -> bool:
        """Return whether the link chooses a service, by its name at the Nacos."""
        if self.link is None or name_here(self.link.namespace_map, name[0]) is None:
            return False
        chosen = LinkFilter(tuple(self.link.namespaces), tuple(self.link.groups), tuple(self.link.services))
        return chosen.takes(name[0], *split_name(name[1]))


def read_links(client: MemberClient) -> ClusterLinks:
    """Return the links to any Nacos, as each member has them.

    Raises:
        CallError: the member does not answer, or as no Rollcall member does.
    """
    answer = client.get(LINKS).json()
    rows = answer.get("members") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise CallError(phrase("%(path)s: the answer has no members", path=LINKS))
    links, members, absent = list[LinkAtMember](), list[str](), list[str]()
    for row in rows:
        if not isinstance(row, dict):
            continue
        address = str(row.get("address"))
        if row.get("error"):
            absent.append(f"{address}: {row['error']}")
            continue
        members.append(address)
        links += [_link(address, one) for one in _objects(row.get("links")) if one.get("kind") in (NACOS, NACOS_1)]
    return ClusterLinks(tuple(links), tuple(members), tuple(absent))


def _link(member: str, row: Mapping[str, Any]) -> LinkAtMember:
    is_heard = row.get("silent") is False and bool(row.get("cluster"))
    servers = row.get("servers")
    return LinkAtMember(
        member,
        str(row.get("name")),
        str(row.get("direction")),
        tuple(map(str, servers)) if isinstance(servers, list) else (),
        "" if is_heard else str(row.get("error") or gettext("not heard yet")),
        str(row.get("refusal") or ""),
    )


def check_addresses(links: ClusterLinks, addresses: Collection[str]) -> None:
    """Check that no address of the Nacos is one of this cluster.

    Raises:
        CommandError: one is.
    """
    if own := sorted({*links.members} & {*addresses}):
        text = gettext("--nacos names a member of this cluster: %(member)s", member=own[0])
        raise CommandError(ExitCode.WRONG_OPTIONS, text)


def choose_link(links: ClusterLinks, name: str | None, addresses: Collection[str]) -> str | None:
    """Return the name of the link to the Nacos with these addresses; None if there is none yet. ``name``: as given.

    Raises:
        CommandError: there is no link of the given name, or several lead to the Nacos.
    """
    known = sorted({one.name for one in links.links})
    if name is not None:
        if name not in known:
            text = gettext(
                "there is no link %(name)s to a Nacos; there are: %(known)s", name=name, known=_listed(known)
            )
            raise CommandError(ExitCode.NOT_FOUND, text)
        return name
    fitting = sorted({one.name for one in links.links if not set(addresses).isdisjoint(one.servers)})
    if len(fitting) > 1:
        text = gettext(
            "several links lead to this Nacos: give one of them with --link: %(names)s", names=_listed(fitting)
        )
        raise CommandError(ExitCode.WRONG_OPTIONS, text)
    return fitting[0] if fitting else None


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) or "-"


def read_rows(client: MemberClient, links: ClusterLinks, name: str | None) -> MemberView:
    """Return the instances of this cluster, and what the link of this name brought.

    Raises:
        CallError: the member does not answer, or is none of Rollcall.
    """
    rows: list[tuple[bool, str, str, Address]] = []

    def keep(_line: bytes, row: Mapping[str, Any]) -> None:
        is_linked = row.get("kind") == RowKind.LINKED and row.get("name") == name
        if is_linked or _is_local(row):
            address = str(row["ip"]), int(row["port"]), str(row["cluster"])
            rows.append((is_linked, str(row["namespace"]), str(row["service"]), address))

    taken = take_linked(client, keep)
    if taken is None:
        raise CallError(phrase("it is not a Rollcall member, or it does not let this user read a dump"))
    link = next((one for one in taken.links if one.name == name), None)
    view = MemberView(taken.cluster, link, links.named(name) if name is not None else (), links)
    namespace_map = link.namespace_map if link is not None else {}
    for is_linked, namespace, service, address in rows:
        held = view.brought if is_linked else view.local
        held.setdefault((name_there(namespace_map, namespace), service), set()).add(address)
    return view


def _is_local(row: Mapping[str, Any]) -> bool:
    """Return whether a row is an instance that is registered here, and that a link would register at a Nacos."""
    if row.get("kind") != RowKind.INSTANCE or not is_seen(row):
        return False
    metadata = row.get("metadata")
    return not isinstance(metadata, dict) or ORIGIN not in metadata


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
