"""A node for a test: what it is called, what the test has it do, and what it waits for."""

import socket
from collections.abc import Callable
from typing import TypeVar

from app.config.settings import SettingError, Settings
from app.embedded.awaited import ChangeSignal
from app.embedded.clock_ahead import ClockAhead
from app.embedded.cut_network import CutNetwork
from app.embedded.errors_of_use import UseError
from app.embedded.free_ports import HOST, bind
from app.embedded.loop_thread import LoopThread
from app.embedded.naming_calls import GROUP, NAMESPACE, NamingCalls, SeenInstance
from app.embedded.served_node import ServedNode
from app.naming.model.events import InstancesChanged, RecordChanged, ServiceChanged, ServiceSubscribed
from app.naming.model.keys import GROUP_SPLITTER
from app.naming.push.udp_subscribers import PushState

WAIT_S = 10.0
T = TypeVar("T")


class EmbeddedNode(NamingCalls):
    """A node on a port of this machine, in this process: the calls of ``NamingCalls``, its life, and waiting."""

    def __init__(self, clock: ClockAhead, network: CutNetwork | None = None) -> None:
        self._clock = clock
        self._network = network
        self._changes = ChangeSignal()
        self._placed: tuple[Settings, LoopThread] | None = None
        """Set by the first start: from then on it has its port."""
        self._served: ServedNode | None = None
        super().__init__(lambda: (self.address, self._settings.context_path))

    @property
    def _settings(self) -> Settings:
        if self._placed is None:
            raise UseError("this registry has no port yet: use it inside of `with Registry() as ...`, or call start()")
        return self._placed[0]

    @property
    def _running(self) -> ServedNode:
        if self._served is None:
            raise UseError(f"the node at {self.address} does not run: it was stopped or killed")
        return self._served

    # --- where it is -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """``host:port`` of the HTTP API: what SDKs want as the server's address."""
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """The port of the HTTP API."""
        return self._settings.port

    @property
    def grpc_port(self) -> int:
        """The port that SDKs of Nacos 2 connect to; they find it by themselves from ``address``."""
        if self._settings.rpc is None:
            raise UseError("this node has no gRPC, by the setting rollcall.rpc.enabled")
        return self._settings.rpc.sdk.port

    @property
    def url(self) -> str:
        """The URL of the HTTP API, without a slash at its end."""
        return f"http://{self.address}{self._settings.context_path}"

    @property
    def clock(self) -> ClockAhead:
        """The clock of this node, and of all nodes of its cluster."""
        return self._clock

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._served is not None

    # --- its life --------------------------------------------------------------------------------

    def _begin(self, opened: socket.socket, settings: Settings, loop: LoopThread) -> None:
        """Serve at the socket, which is closed at the end or if that fails."""
        self._placed = settings, loop
        try:
            served = ServedNode(settings, self._clock, self._network, loop)
        except SettingError as error:
            opened.close()
            raise UseError(str(error)) from None
        for kind in (InstancesChanged, RecordChanged, ServiceChanged, ServiceSubscribed):
            served.node.domain.notify.subscribe(kind, self._changes.note)
        try:
            served.start(opened)
        except SettingError as error:
            raise UseError(str(error)) from None
        self._served = served

    def stop(self) -> None:
        """End as at SIGTERM; a node that does not run stays so."""
        served, self._served = self._served, None
        if served is not None:
            served.stop()

    def kill(self) -> None:
        """End as at SIGKILL: connections are cut, and nobody is told.

        Raises:
            UseError: it does not run.
        """
        served, self._served = self._served, None
        if served is None:
            raise UseError(f"kill(): the node at {self.address} does not run")
        served.kill()

    def restart(self) -> None:
        """Start again on the same port, with what the data folder has; one that runs ends as at SIGTERM before.

        Raises:
            UseError: the port was taken meanwhile.
        """
        self.stop()
        settings = self._settings
        assert self._placed is not None
        self._begin(bind(settings.port), settings, self._placed[1])

    # --- waiting ---------------------------------------------------------------------------------

    def wait_until(self, look: Callable[[], T], timeout_s: float = WAIT_S, *, expected: str = "what is expected") -> T:
        """Return what ``look`` gives as soon as that counts as true; it is called again with each change of this node.

        Raises:
            WaitOver: that is never the case within ``timeout_s`` of the machine's time. ``expected``: for its text.
        """
        return self._changes.wait_until(look, timeout_s, expected=expected, shown=look)

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
        """Return the instances of a service as soon as there are exactly so many; 0 waits until all are gone.

        Raises:
            WaitOver: there are never so many within ``timeout_s`` of the machine's time.
        """

        def look() -> list[SeenInstance]:
            return self.instances(service, group=group, namespace=namespace, healthy_only=healthy_only)

        found: list[SeenInstance] = []

        def is_count() -> bool:
            found[:] = look()
            return len(found) == count

        what = f"{count} {'healthy ' if healthy_only else ''}instances of {service} at {self.address}"
        self._changes.wait_until(is_count, timeout_s, expected=what, shown=lambda: found)
        return found

    def subscriber_count(self, service: str, *, group: str = GROUP, namespace: str = NAMESPACE) -> int:
        """How many clients this node pushes the service to, over UDP and gRPC."""
        return len(self._push_states(service, group, namespace))

    def wait_for_pushes(
        self, service: str, *, group: str = GROUP, namespace: str = NAMESPACE, timeout_s: float = WAIT_S
    ) -> int:
        """Wait until all who subscribe to a service here acknowledged what it is now; return how many do.

        Raises:
            WaitOver: one never does within ``timeout_s`` of the machine's time.
        """

        def lacking() -> list[str]:
            return [one.who for one in self._push_states(service, group, namespace) if one.is_under_way]

        what = f"the acknowledgement of all who subscribe to {service}"
        self._changes.wait_until(lambda: not lacking(), timeout_s, expected=what, shown=lacking)
        return self.subscriber_count(service, group=group, namespace=namespace)

    def _push_states(self, service: str, group: str, namespace: str) -> list[PushState]:
        return self._running.push_states(namespace, f"{group}{GROUP_SPLITTER}{service}")
