"""A node for a test: its address, the calls to it, its life, and waiting."""

from collections.abc import Callable
from typing import TypeVar

from app.naming.model.keys import GROUP_SPLITTER
from app.naming.push.udp_subscribers import PushState
from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.errors_of_use import UseError
from app.tools.embedded.free_ports import HOST
from app.tools.embedded.naming_calls import GROUP, NAMESPACE, NamingCalls, SeenInstance
from app.tools.embedded.node_life import NodeLife

WAIT_S = 10.0
FIRST_ADMIN_PATH = "/v1/auth/users/admin"
T = TypeVar("T")


class EmbeddedNode(NamingCalls):
    """A node on a port of this machine, in this process: the calls of ``NamingCalls``, its life, and waiting."""

    def __init__(self, life: NodeLife) -> None:
        self._life = life
        super().__init__(lambda: (self.address, life.settings.context_path))

    # --- where it is -----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """``host:port`` of the HTTP API, which SDKs take as the server's address."""
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """The port of the HTTP API."""
        return self._life.settings.port

    @property
    def grpc_port(self) -> int:
        """The port that SDKs of Nacos 2 connect to; they derive it from ``address``."""
        if self._life.settings.rpc is None:
            raise UseError("this node has no gRPC, by the setting rollcall.rpc.enabled")
        return self._life.settings.rpc.sdk.port

    @property
    def url(self) -> str:
        """The URL of the HTTP API, without a slash at its end."""
        return f"http://{self.address}{self._life.settings.context_path}"

    @property
    def clock(self) -> ClockAhead:
        """The clock of this node, and of all nodes of its cluster."""
        return self._life.clock

    @property
    def is_running(self) -> bool:
        """True while it serves."""
        return self._life.is_running

    def call(self, method: str, path: str, **parameters: object) -> str:
        """Make any call of the HTTP API, as ``NamingCalls.call`` does; the first administrator needs no secret here."""
        setup = self._life.served.node.services.access.setup if path == FIRST_ADMIN_PATH else None
        if setup is not None:
            parameters.setdefault("secret", setup.value)
        return super().call(method, path, **parameters)

    # --- its life --------------------------------------------------------------------------------

    def stop(self) -> None:
        """End as at SIGTERM; do nothing if the node does not run."""
        self._life.stop()

    def kill(self) -> None:
        """End as at SIGKILL: connections are cut without notice.

        Raises:
            UseError: it does not run.
        """
        self._life.kill()

    def restart(self) -> None:
        """Start again on the same port and data folder; a running node ends as at SIGTERM before.

        Raises:
            UseError: the port was taken in the meantime.
        """
        self._life.restart()

    # --- waiting ---------------------------------------------------------------------------------

    def wait_until(self, look: Callable[[], T], timeout_s: float = WAIT_S, *, expected: str = "what is expected") -> T:
        """Return the result of ``look`` as soon as it counts as true; each change of this node calls it again.

        Raises:
            WaitOver: it does not within ``timeout_s`` of the machine's time. ``expected``: for its text.
        """
        return self._life.changes.wait_until(look, timeout_s, expected=expected, shown=look)

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
        """Return the instances of a service as soon as there are exactly ``count``; 0 waits until all are gone.

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
        self._life.changes.wait_until(is_count, timeout_s, expected=what, shown=lambda: found)
        return found

    def subscriber_count(self, service: str, *, group: str = GROUP, namespace: str = NAMESPACE) -> int:
        """Return how many clients this node pushes the service to, over UDP and gRPC."""
        return len(self._push_states(service, group, namespace))

    def wait_for_pushes(
        self, service: str, *, group: str = GROUP, namespace: str = NAMESPACE, timeout_s: float = WAIT_S
    ) -> int:
        """Wait until all subscribers of a service here acknowledged its present state; return their number.

        Raises:
            WaitOver: one does not within ``timeout_s`` of the machine's time.
        """

        def lacking() -> list[str]:
            return [one.who for one in self._push_states(service, group, namespace) if one.is_under_way]

        what = f"the acknowledgement of all who subscribe to {service}"
        self._life.changes.wait_until(lambda: not lacking(), timeout_s, expected=what, shown=lacking)
        return self.subscriber_count(service, group=group, namespace=namespace)

    def _push_states(self, service: str, group: str, namespace: str) -> list[PushState]:
        return self._life.served.push_states(namespace, f"{group}{GROUP_SPLITTER}{service}")
