"""Links of simulated members to a Nacos: the real sessions, over calls that take no time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from app.links.feed import Feed
from app.links.follower import LinkFollower
from app.links.link_calls import LinkRefused
from app.links.nacos_out import LocalRegistrations
from app.links.nacos_session import NacosSession
from app.links.nacos_side import Pushed, Registration
from app.links.nacos_thread import NacosSteps
from app.links.nacos_values import Address, ServiceName
from app.tools.simulation.member.sim_ports import FrontendMember

STEP_MS = 200
"""A link looks for changes at least so often. Source: ``WAIT_S`` of ``nacos_session``."""


class SimNacosSide:
    """The NacosSide of one run of a member: what it registers ends with its process."""

    carries_twice = True

    def __init__(self, member: FrontendMember, server: str) -> None:
        self._member, self._run, self.server = member, member.run, server
        self.id = f"{member.address}~{member.run}"
        self.registered: dict[ServiceName, Mapping[Address, Mapping[str, Any]]] = {}
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Return whether the Nacos has the instances that were registered over this connection."""
        return not self._is_closed and self._member.run == self._run

    def open(self) -> None:
        """Do nothing: the Nacos answers."""

    def check(self) -> None:
        """Do nothing: the Nacos answers."""

    def cut(self) -> None:
        """Do nothing: no call hangs."""

    def close(self, *, withdraws: bool) -> None:
        self._is_closed = True

    def wake(self) -> None:
        """Do nothing: the link looks for itself."""

    def namespaces(self) -> Collection[str]:
        return ()

    def names(self, namespace: str, groups: Collection[str]) -> set[str] | None:
        return set()

    def names_changed(self) -> bool:
        return False

    def watch(self, names: Sequence[ServiceName]) -> list[dict[str, Any] | LinkRefused]:
        return [{"hosts": []} for _ in names]

    def leave(self, name: ServiceName) -> None:
        """Do nothing: no list is sent."""

    def take(self, timeout_s: float) -> list[Pushed]:
        return []

    def register(self, changes: Sequence[Registration]) -> list[LinkRefused | None]:
        for one in changes:
            self.registered[one.name] = one.rows
        return [None] * len(changes)


class SimNacosLink:
    """A link of one run of a member, over one connection to a Nacos that does not fail."""

    side_class = SimNacosSide
    outgoing_class = LocalRegistrations

    def __init__(
        self,
        member: FrontendMember,
        opened: Callable[[SimNacosSide], None],
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
        feed: Feed,
        own_cluster: Callable[[], str],
    ) -> None:
        """``opened`` gets the connection."""
        self._member, self.follower, self._part = member, follower, part
        self._outgoing = self.outgoing_class(follower.settings, feed, own_cluster)
        self.steps = NacosSteps(self._outgoing, follower, part, now_ms)
        [self.server, *_] = follower.settings.servers
        self._side = self.side_class(member, self.server)
        self._session = NacosSession(follower, self._side, self._outgoing, now_ms)
        opened(self._side)

    def start(self) -> None:
        self._outgoing.begin()
        self._step()

    def _step(self) -> None:
        if not self._side.is_open:
            return
        self._session.follow(self._part())
        if self.follower.part is not None:
            self._session.step()
        self._member.in_run(STEP_MS, self._step)

    def end(self, *, withdraws: bool = False) -> None:
        self._side.close(withdraws=withdraws)

    def join(self, _timeout_s: float) -> bool:
        return True

    def check(self) -> None:
        """Do nothing: no call hangs."""
