"""A cluster for a test: several members in one process, and the faults that may happen to them."""

import gc
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from app.config.identity_settings import IDENTITY_KEY, IDENTITY_VALUE
from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.cut_network import CutNetwork
from app.tools.embedded.embedded_node import WAIT_S, EmbeddedNode
from app.tools.embedded.embedded_registry import FOLDER_PREFIX, START_TRIES
from app.tools.embedded.errors_of_use import PortTaken, UseError, WaitOver
from app.tools.embedded.free_ports import FIRST_PORT, HOST, bind_free
from app.tools.embedded.loop_thread import LoopThread
from app.tools.embedded.naming_calls import GROUP, NAMESPACE, SeenInstance
from app.tools.embedded.node_life import NodeLife
from app.tools.embedded.node_settings import VALUE, node_settings, texts_of

MEMBERS_MAX = 9
SETTLE_STEP_S = 0.25
"""The time by the members' clock from one look at their views of each other to the next."""
SETTLE_S = 60.0
"""The most time by the machine's clock. Members notice a start or a death after some seconds by the cluster's clock,
which pass in a moment."""
MemberName = EmbeddedNode | int


class EmbeddedCluster:
    """Members that replicate with each other over their real ports, which serve inside of ``with``.

    All have one clock. Clients reach each member during any cut: ``partition`` cuts only the network between members.
    """

    def __init__(self, members: int = 3, *, settings: Mapping[str, VALUE] | None = None) -> None:
        """``settings``: those of all members, by their names in docs/settings.md.

        Raises:
            UseError: a setting is unknown, or its value or the number of members is not allowed.
        """
        if not 2 <= members <= MEMBERS_MAX:
            raise UseError(f"Cluster({members}): from 2 to {MEMBERS_MAX} members; for one node there is Registry()")
        identity = {
            IDENTITY_KEY.name: "Embedded-Identity",
            IDENTITY_VALUE.name: secrets.token_urlsafe(24),
        }
        self._texts = {**identity, **texts_of(settings)}
        node_settings(self._texts, FIRST_PORT, Path(), (f"{HOST}:{FIRST_PORT}", f"{HOST}:{FIRST_PORT + 2}"))
        self._network = CutNetwork()
        self.clock = ClockAhead()
        self._lives = [NodeLife(self.clock, self._network) for _ in range(members)]
        self.members = [EmbeddedNode(life) for life in self._lives]
        self._kept = ExitStack()
        self._is_used = False

    def __getitem__(self, number: int) -> EmbeddedNode:
        return self.members[number]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[EmbeddedNode]:
        return iter(self.members)

    # --- its life --------------------------------------------------------------------------------

    def __enter__(self) -> "EmbeddedCluster":
        if self._is_used:
            raise UseError("a Cluster serves once: make another one")
        self._is_used = True
        for tries_left in reversed(range(START_TRIES)):
            try:
                self._start()
            except BaseException as error:
                self._close()
                if not isinstance(error, PortTaken) or not tries_left:
                    raise
            else:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _start(self) -> None:
        folder = Path(self._kept.enter_context(TemporaryDirectory(prefix=FOLDER_PREFIX)))
        opened = [self._kept.enter_context(bind_free()) for _ in self.members]
        ports = [one.getsockname()[1] for one in opened]
        listed = tuple(f"{HOST}:{port}" for port in ports)
        loop = LoopThread()
        self._kept.callback(loop.stop)
        loop.start()
        for life, port, one in zip(self._lives, ports, opened, strict=True):
            self._kept.callback(life.end)
            life.begin(one, node_settings(self._texts, port, folder / str(port), listed), loop)
        self.settle()

    def _close(self) -> None:
        self._kept.close()
        # The thread of grpcio ends with the last of its objects, some of which refer to each other.
        gc.collect()

    # --- what may happen -------------------------------------------------------------------------

    def kill(self, member: MemberName) -> None:
        """End a member as at SIGKILL; its ``restart`` brings it back."""
        self._member(member).kill()

    def partition(self, *groups: MemberName | Iterable[MemberName]) -> None:
        """Cut the network between groups of members; those that are not named are one more group.

        ``partition(0)`` cuts the first member off. Calls under way end; the next ones are lost. Earlier cuts are
        healed, except those that this call makes again.

        Raises:
            UseError: a member is in two groups or in no cluster, or there is only one group.
        """
        sides = [self._members(group) for group in groups]
        named = [one for side in sides for one in side]
        if len({id(one) for one in named}) < len(named):
            raise UseError("partition(): a member is in two groups")
        rest = [one for one in self.members if one not in named]
        sides = [side for side in (*sides, rest) if side]
        if len(sides) < 2:
            raise UseError("partition(): name at least one member and leave one out, or name two groups")
        self._network.part([one.address for one in side] for side in sides)
        self._connect()

    def heal(self) -> None:
        """Let all members reach each other again."""
        self._network.heal()
        self._connect()

    def _connect(self) -> None:
        for life in self._lives:
            life.connect()

    def _members(self, group: MemberName | Iterable[MemberName]) -> list[EmbeddedNode]:
        return [self._member(one) for one in ([group] if isinstance(group, EmbeddedNode | int) else group)]

    def _member(self, named: MemberName) -> EmbeddedNode:
        if isinstance(named, int) and -len(self.members) <= named < len(self.members):
            return self.members[named]
        if isinstance(named, EmbeddedNode) and named in self.members:
            return named
        raise UseError(f"{named!r} is not a member: name one by its number, 0 to {len(self.members) - 1}, or itself")

    # --- waiting ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let time pass until each running member serves, and knows which of the others it can reach.

        Call it after ``kill``, ``partition``, ``heal`` and ``restart``: until then members keep their old view, as in
        production.

        Raises:
            WaitOver: a member never settles.
        """
        end_s = time.monotonic() + SETTLE_S
        while unsettled := [one.settings.self_address for one in self._running() if not self._is_settled(one)]:
            if time.monotonic() > end_s:
                raise WaitOver(f"{', '.join(unsettled)} did not settle within {SETTLE_S:.0f} s")
            self.clock.advance(SETTLE_STEP_S)

    def _running(self) -> list[NodeLife]:
        return [one for one in self._lives if one.is_running]

    def _is_settled(self, life: NodeLife) -> bool:
        running = {one.settings.self_address for one in self._running()}
        return life.served.knows(life.reached & running)

    def wait_for_instances(
        self,
        service: str,
        count: int = 1,
        *,
        group: str = GROUP,
        namespace: str = NAMESPACE,
        healthy_only: bool = False,
        timeout_s: float = WAIT_S,
    ) -> list[SeenInstance]:
        """Return the instances of a service as soon as each running member has exactly so many, and the same.

        Raises:
            WaitOver: they do not within ``timeout_s`` of the machine's time.
        """
        running = [one for one in self.members if one.is_running]
        if not running:
            raise UseError("no member runs")
        found: dict[str, list[SeenInstance]] = {}

        def agree() -> bool:
            for one in running:
                found[one.address] = one.instances(service, group=group, namespace=namespace, healthy_only=healthy_only)
            first, *others = found.values()
            return len(first) == count and all(one == first for one in others)

        what = f"{count} instances of {service} at each member"
        self._running()[0].changes.wait_until(agree, timeout_s, expected=what, shown=lambda: found)
        return found[running[0].address]
