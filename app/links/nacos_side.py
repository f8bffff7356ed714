"""A Nacos as a link sees it, over any protocol."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from app.links.link_calls import LinkError, LinkRefused
from app.links.nacos_values import Address, ServiceName


class NacosMoved(LinkError):
    """The server asks to connect to another one. Until then the connection stays."""


class Pushed(NamedTuple):
    """A list that the Nacos sent of a service."""

    name: ServiceName
    info: dict[str, Any] | None
    """The fields of the list; None if the link is to ask for it."""
    size: int


class Registration(NamedTuple):
    """The instances of a service that are to be registered in place of those before; none at all removes them."""

    name: ServiceName
    rows: Mapping[Address, Mapping[str, Any]]
    taken: frozenset[Address]
    """Addresses that clients registered at the Nacos itself, which stay."""
    is_handed_over: bool
    """True if other members registered them: what ends with this member is ended, and no more."""


class NacosSide(Protocol):
    """The calls to one server. All raise LinkError when it does not answer, and LinkRefused when it refuses one."""

    server: str
    id: str
    """Names this connection: a list that comes over it follows those before."""
    carries_twice: bool
    """True if what is registered ends with its connection: then two members carry each service (L9)."""

    def open(self) -> None:
        """Connect and log in."""

    def check(self) -> None:
        """Check that the server still answers, and keep alive what is registered there."""

    def cut(self) -> None:
        """End the calls under way, from any thread."""

    def close(self, *, withdraws: bool) -> None:
        """End the connection. ``withdraws``: the link ends, and with it all that it registered."""

    @property
    def wake(self) -> Callable[[], None]:
        """Return what has ``take`` return, from any thread."""

    def namespaces(self) -> Collection[str]:
        """Return the namespaces that the server lists; none if it does not tell them."""

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        """Return the full names of a namespace's services; None if they are not known yet.

        ``groups``: where a server lists services only by their groups, these are asked for.
        """

    def names_changed(self) -> bool:
        """Return whether a service came or went since the last question, if the server tells it by itself."""

    def watch(self, names: Sequence[ServiceName]) -> list[dict[str, Any] | LinkRefused]:
        """Return the lists of these services, in their order, and have their changes come."""

    def leave(self, name: ServiceName) -> None:
        """Have the changes of a service come no more."""

    def take(self, timeout_s: float) -> list[Pushed]:
        """Return the lists that came; wait for one so long."""

    def register(self, changes: Sequence[Registration]) -> list[LinkRefused | None]:
        """Make these changes of registrations. Return the refused ones, in their order."""


def on_pages(ask: Callable[[int], object], size: int, pages_max: int, problem: str) -> Iterator[Any]:
    """Yield the elements of a list that a server gives in pages of ``size``, until one is not full.

    ``ask``: returns the list of a page, by its number from 1. ``problem``: the text of the error.

    Raises:
        LinkError: an answer is not a list.
    """
    for page in range(1, pages_max + 1):
        listed = ask(page)
        if not isinstance(listed, list):
            raise LinkError(problem)
        yield from listed
        if len(listed) < size:
            return
