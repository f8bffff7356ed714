"""A protocol over a real registry, for tests that are its runtime, its peers and its clock."""

from collections.abc import Callable, Mapping
from typing import Any

from app.naming.model.keys import datum_key
from app.naming.registry.merge import InstanceList
from app.naming.registry.operations import RegisterInstance
from app.naming.registry.registry import Registry
from app.replication.instance_list_type import INSTANCE_LIST
from distro.engine.local_actions import LocalActions
from distro.members.mapper import DistroMapper
from distro.members.members import MemberList
from distro.model.config import DistroConfig
from distro.model.monitor import DistroStats
from distro.model.ports import Component
from distro.model.types import (
    CAPABILITY_VERSIONS,
    Action,
    Datum,
    DistroKey,
    Load,
    LocalAction,
    MemberState,
    Outcome,
    PeerReport,
    Received,
    Report,
    Verify,
    Version,
)
from distro.protocol.protocol import DistroProtocol
from distro.receive.receive import ReceiverEvents
from tests.support.registry_parts import store_of

SELF, B, C = "10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"
ME, OTHER = f"{SELF}~1", f"{B}~1"
CONFIG = DistroConfig(sync_spacing_ms=0)
OWN_KIND = frozenset({CAPABILITY_VERSIONS})


class NoEvents(ReceiverEvents):
    """For a receiver without a protocol."""


class Engine:
    """A protocol over a real registry; the test is its runtime, its peers and its clock."""

    def __init__(
        self,
        *peers: str,
        config: DistroConfig = CONFIG,
        kinds: Mapping[str, frozenset[str]] | None = None,
        more: Mapping[str, Component] | None = None,
    ) -> None:
        """``kinds``: what peers advertise that are not of our kind; ``more``: resource types beside the lists."""
        self.config = config
        self.kinds = kinds or {}
        self.now_ms = 1_000_000
        self.peers = peers
        self.gone: set[str] = set()
        self.registry = Registry.of(ME)
        self.stats = DistroStats()
        store = store_of(self.registry, lambda _event: None)
        nothing: Any = None
        members = MemberList(SELF, config, self.now_ms)
        components = self.components = {INSTANCE_LIST: Component(store, nothing, nothing), **(more or {})}
        self.protocol = DistroProtocol(members, ME, config, components, self.stats, self.now_ms)
        self.before_serving: Callable[[int], object] = lambda _now_ms: None
        self.local = LocalActions(self.protocol.reader, components, self.serve)
        self.protocol.replace_members([SELF, *peers], self.now_ms)

    def serve(self, now_ms: int) -> None:
        self.before_serving(now_ms)

    def hear(self, *peers: str) -> None:
        """The peers report that they serve, and hear our reports."""
        view = tuple(sorted((SELF, *self.peers)))
        for peer in peers or self.peers:
            report = PeerReport(peer, MemberState.UP, self.kinds.get(peer, OWN_KIND), {}, view)
            self.protocol.on_report(report, self.now_ms)
            self.protocol.on_report_done(peer, Outcome.DELIVERED, report, self.now_ms)

    def tick(self, wait_ms: int = 0) -> list[Action]:
        """Let time pass and tick; reports are answered on the way, and left out."""
        end_ms = self.now_ms + wait_ms
        while True:
            actions, next_ms = self.protocol.tick(self.now_ms)
            ended = [self.local.run(action, self.now_ms) for action in actions if isinstance(action, LocalAction)]
            for event in ended:
                event(self.protocol, self.now_ms)
            for action in actions:
                if isinstance(action, Report) and action.peer in self.gone:
                    self.protocol.on_report_done(action.peer, Outcome.REFUSED, None, self.now_ms)
                elif isinstance(action, Report):
                    self.hear(action.peer)
            calls: list[Action] = [action for action in actions if not isinstance(action, Report | LocalAction)]
            if calls or (self.now_ms >= end_ms and not ended):
                return calls
            if ended:
                continue
            self.now_ms = min(max(next_ms, self.now_ms + 1), end_ms)

    def load(self) -> None:
        """Let every peer give an empty snapshot, so that this node is UP."""
        self.hear()
        for action in self.tick():
            assert isinstance(action, Load)
            self.protocol.on_load_done(action, Outcome.DELIVERED, [], self.now_ms)
        self.verify_all(self.tick())
        assert not self.protocol.loading

    def verify_all(self, actions: list[Action], *refused: str) -> list[Verify]:
        rounds = [action for action in actions if isinstance(action, Verify)]
        assert len(rounds) == len(actions), actions
        for action in rounds:
            received = Received({key: Version(9, 9, OTHER) for key in refused})
            self.protocol.on_verify_done(action, Outcome.DELIVERED, received, self.now_ms)
        return rounds

    def write(self, service: str, port: int = 80) -> str:
        """Register an instance here and tell the protocol."""
        self.registry.writes.register(RegisterInstance(service, "10.1.0.1", port), self.now_ms)
        key = datum_key("public", service)
        self.protocol.sync({DistroKey(INSTANCE_LIST, key): None}, self.now_ms)
        return key

    def copy(self, service: str, version: Version) -> str:
        key = datum_key("public", service)
        self.registry.replication.apply(Datum(key, version, InstanceList({}, {})), None, self.now_ms)
        return key

    def leave(self, peer: str) -> None:
        """The peer says that it goes, and answers no more."""
        self.gone.add(peer)
        farewell = PeerReport(peer, MemberState.DOWN, OWN_KIND)
        self.protocol.on_report_done(peer, Outcome.DELIVERED, farewell, self.now_ms)

    def service_of(self, owner: str, *, without: str = "", before: str = "") -> str:
        """The name of a service whose owner this is when ``without`` is not there; ``before``: and with all there."""
        everybody = {SELF, *self.peers}
        for number in range(1_000):
            name = f"DEFAULT_GROUP@@svc{number}"
            if DistroMapper.over(SELF, everybody - {without}).map_srv(name) == owner and before in (
                "",
                DistroMapper.over(SELF, everybody).map_srv(name),
            ):
                return name
        raise AssertionError(owner)
