"""The life of an embedded node: a port and a folder that stay, and one run after the other."""

import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from app.config.settings import SettingError, Settings
from app.machine.process.data_lock import DataLockError
from app.naming.model.events import InstancesChanged, RecordChanged, ServiceChanged, ServiceSubscribed
from app.tools.embedded.clock_ahead import ClockAhead
from app.tools.embedded.cut_network import CutNetwork
from app.tools.embedded.errors_of_use import PortTaken, UseError, WaitOver
from app.tools.embedded.free_ports import bind
from app.tools.embedded.loop_thread import LoopThread
from app.tools.embedded.served_node import ServedNode

TOLD = (InstancesChanged, RecordChanged, ServiceChanged, ServiceSubscribed)
"""The events after which a waiting test looks again."""
LOOK_S = 0.02
"""The time between two looks, for changes without an event, such as an acknowledgement."""
T = TypeVar("T")


class ChangeSignal:
    """Wakes waiting threads when something has changed. Thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def note(self, _event: object) -> None:
        """Note that something has changed. Never waits for long."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait_until(self, look: Callable[[], T], timeout_s: float, *, expected: str, shown: Callable[[], object]) -> T:
        """Return the result of ``look``, as soon as that counts as true.

        Raises:
            WaitOver: it does not within ``timeout_s``; the text has ``expected`` and the result of ``shown``.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            with self._condition:
                seen = self._count
            if found := look():
                return found
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise WaitOver(f"waited {timeout_s:g} s for {expected}, without success; found: {shown()}")
            with self._condition:
                if self._count == seen:
                    self._condition.wait(min(left_s, LOOK_S))


class NodeLife:
    """One node through its starts and ends. Not for two threads at once."""

    def __init__(self, clock: ClockAhead, network: CutNetwork | None = None) -> None:
        self.clock = clock
        self.changes = ChangeSignal()
        self._network = network
        self._settings: Settings | None = None
        self._loop: LoopThread | None = None
        self._served: ServedNode | None = None

    @property
    def settings(self) -> Settings:
        """The node's settings, once it has a port."""
        if self._settings is None:
            raise UseError("this registry has no port yet: use it inside of `with Registry() as ...`, or call start()")
        return self._settings

    @property
    def is_running(self) -> bool:
        """True while it serves."""
        return self._served is not None

    @property
    def served(self) -> ServedNode:
        """The run under way."""
        if self._served is None:
            raise UseError(f"the node at {self.settings.self_address} does not run: it was stopped or killed")
        return self._served

    def begin(self, opened: socket.socket, settings: Settings, loop: LoopThread) -> None:
        """Serve at the socket, which is closed at the end or if the start fails.

        Raises:
            PortTaken: a gRPC port was taken in the meantime.
            UseError: the data folder is in use.
        """
        self._settings, self._loop = settings, loop
        try:
            served = ServedNode(settings, self.clock, self._network, loop)
            for kind in TOLD:
                served.node.domain.notify.subscribe(kind, self.changes.note)
            served.start(opened)
        except SettingError as error:
            opened.close()
            if isinstance(error, DataLockError):
                raise UseError(f"{str(error).partition(';')[0]}; give another data_dir=...") from None
            raise PortTaken(str(error)) from None
        self._served = served
        self.connect()

    @property
    def reached(self) -> frozenset[str]:
        """The members that the network lets it call, and itself, whether or not they run."""
        own, network = self.settings.self_address, self._network
        return frozenset(one for one in self.settings.members if network is None or not network.is_cut(one, own))

    def connect(self) -> None:
        """Keep gRPC connections only to members that the network lets it call now."""
        if self._served is not None:
            self._served.connect(tuple(sorted(self.reached)))

    def end(self) -> None:
        """End as at SIGKILL if it runs."""
        if self.is_running:
            self.kill()

    def stop(self) -> None:
        """End as at SIGTERM; do nothing if it does not run."""
        served, self._served = self._served, None
        if served is not None:
            served.stop()

    def kill(self) -> None:
        """End as at SIGKILL.

        Raises:
            UseError: it does not run.
        """
        served, self._served = self.served, None
        served.kill()

    def restart(self) -> None:
        """Begin another run on the same port and folder, after the end of the present run.

        Raises:
            UseError: the port was taken in the meantime.
        """
        self.stop()
        settings = self.settings
        assert self._loop is not None
        self.begin(bind(settings.port), settings, self._loop)
