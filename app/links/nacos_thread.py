"""The thread of a link to a Nacos: it connects to one of its servers, and to the next one after a failure."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from app.config.link_fields import NACOS
from app.links.feed import Feed
from app.links.follower import LinkFollower
from app.links.link_calls import LinkError
from app.links.link_steps import Connect, LinkSteps, Step
from app.links.link_thread import LinkThread
from app.links.nacos_grpc import GrpcNacos
from app.links.nacos_http import HttpNacos
from app.links.nacos_out import HANDOVER_MS, LocalRegistrations
from app.links.nacos_session import NacosSession
from app.links.nacos_side import NacosMoved, NacosSide


class NacosSteps(LinkSteps):
    """The steps of a link to a Nacos: ``Connect`` stands for all that is done over one connection."""

    def __init__(self, outgoing: LocalRegistrations | None, *arguments: Any) -> None:
        """``arguments``: those of ``LinkSteps``."""
        super().__init__(*arguments)
        self._outgoing = outgoing

    @property
    def sent_services(self) -> int:
        return self._outgoing.services if self._outgoing is not None else 0

    @property
    def sent_instances(self) -> int:
        return self._outgoing.instances if self._outgoing is not None else 0

    def _take_part(self, place: tuple[int, int]) -> None:
        """Leave it to the session: a connection outlives a change of the part, as it has the registrations."""

    def _follow_one(self) -> Generator[Step, Any, None]:
        self.connections += 1
        place = self._part()
        yield Connect(self._server_of(place[0] if place is not None else 0))


class NacosThread(LinkThread):
    """Follows a Nacos, and registers local instances there, until it is stopped. ``state`` is for any thread."""

    def __init__(
        self,
        follower: LinkFollower,
        part: Callable[[], tuple[int, int] | None],
        now_ms: Callable[[], int],
        feed: Feed,
        own_cluster: Callable[[], str],
    ) -> None:
        """``part``: as of LinkThread. ``feed``: the changes of local instances."""
        settings = follower.settings
        self.outgoing = LocalRegistrations(settings, feed, own_cluster) if settings.sends else None
        super().__init__(follower, part, now_ms, partial(NacosSteps, self.outgoing))
        self._part, self._feed = part, feed
        self._former: NacosSide | None = None
        """A connection to a server that was late or asked to connect elsewhere, until the next one has everything."""
        self._moved_ms = 0

    def check(self) -> None:
        """Cut a call under way in which nothing whole came for too long. For a timer.

        Over gRPC each call has its own deadline. The cut would end what is registered, while perhaps only this thread
        is late.
        """
        if self.follower.settings.kind != NACOS:
            super().check()

    def _run(self) -> None:
        super()._run()
        self._leave_former()

    def _take(self, step: Step) -> object:
        if isinstance(step, Connect):
            self._follow(step.server)
            return None
        return super()._take(step)

    def _follow(self, server: str) -> None:
        """Follow one server until it fails, or the link ends.

        Raises:
            LinkError, CodecError: the link is to try another one.
        """
        side: NacosSide = (GrpcNacos if self.follower.settings.kind == NACOS else HttpNacos)(
            self.follower.settings, server
        )
        self._calls, self._begun_ms = side, self._now_ms()
        is_open = is_kept = False
        try:
            if not self._stopped.is_set():  # or the end came before it could cut these calls
                side.open()
            is_open = True
            self._work(side)
        except NacosMoved:
            self.steps.next_server()
            self._leave_former()
            self._former, is_kept = side, True
        except LinkError:
            # The server may only be late, or this member was: what is registered stays until the next one has it.
            is_kept = is_open and side.carries_twice and self._former is None and not self._stopped.is_set()
            if is_kept:
                self._former, self._moved_ms = side, self._now_ms()
            raise
        finally:
            self._calls = None
            if self.outgoing is not None:
                self._feed.detach(side.wake)
                self.outgoing.end()
            if not is_kept:
                side.close(withdraws=self._stopped.is_set() and self._withdraws)
            if self._stopped.is_set() or self._now_ms() - self._moved_ms > HANDOVER_MS:
                self._leave_former()

    def _leave_former(self) -> None:
        """End the connection before the present one, which has all by now that was registered over it."""
        former, self._former = self._former, None
        self._moved_ms = self._now_ms()
        if former is not None:
            former.close(withdraws=False)

    def _work(self, side: NacosSide) -> None:
        if self.outgoing is not None:
            self._feed.attach(side.wake)
            self.outgoing.begin()
        session = NacosSession(self.follower, side, self.outgoing, self._now_ms)
        while not self._stopped.is_set():
            session.follow(self._part())
            if self.follower.part is None:
                self._stopped.wait(0.05)
                continue
            changes, size = session.step()
            wait_s = self.steps.came(changes, size)
            if self._former is not None and session.is_settled:
                self._leave_former()
            self._stopped.wait(wait_s)
