"""UdpSubscribers against a model: clients that get pushes, lose them, answer late or are dead; time in any steps."""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.naming.push.schedule import SPACING_MS
from app.naming.push.udp_subscribers import (
    ACK_TIMEOUT_MS,
    FORGET_MS,
    SENDS_MAX,
    UNANSWERED_MAX,
    Push,
    Subscriber,
    UdpSubscribers,
)
from tests.support.thorough import examples

SERVICES = ["g@@a", "g@@b", "g@@c"]
PORTS = list(range(50_000, 50_004))
steps_ms = st.sampled_from([0, 1, SPACING_MS - 1, SPACING_MS, 500, ACK_TIMEOUT_MS - 1, ACK_TIMEOUT_MS, FORGET_MS + 1])


def subscriber(port: int, service: str) -> Subscriber:
    return Subscriber("public", service, "", "10.0.0.1", port, "Nacos-Java-Client:v1.4.8", "", 65_507)


class Clients(RuleBasedStateMachine):
    """A push carries the state of when it is sent. ``versions`` is the truth, ``heard`` what the clients know."""

    @initialize(first=st.integers(min_value=0, max_value=(1 << 32) - 1))
    def begin(self, first: int) -> None:
        self.now_ms = 1_000_000
        self.subscribers = UdpSubscribers(first)
        self.versions = dict.fromkeys(SERVICES, 0)
        self.heard: dict[Subscriber, int] = {}
        self.seen_ms: dict[Subscriber, int] = {}
        self.sent: dict[int, list[int]] = {}
        """By reference, when it was sent."""
        self.pushed_ms: dict[str, int] = {}
        self.unanswered: list[Push] = []
        self.dead: set[Subscriber] = set()
        self.open: dict[Subscriber, int] = {}
        """Datagrams since the client's last query or acknowledgement."""
        self.held: set[Subscriber] = set()
        """Clients for which too many were open at some time."""

    @rule(port=st.sampled_from(PORTS), service=st.sampled_from(SERVICES))
    def poll(self, port: int, service: str) -> None:
        one = subscriber(port, service)
        self.subscribers.subscribe(one, self.now_ms)
        self.heard[one] = self.versions[service]
        self.seen_ms[one] = self.now_ms
        self.dead.discard(one)
        self.open[one] = 0
        self.held.discard(one)

    @rule(port=st.sampled_from(PORTS), service=st.sampled_from(SERVICES))
    def die(self, port: int, service: str) -> None:
        self.dead.add(subscriber(port, service))

    @rule(service=st.sampled_from(SERVICES))
    def change(self, service: str) -> None:
        self.versions[service] += 1
        told = self.subscribers.changed(("public", service), self.now_ms)
        assert told == self.subscribers.has(("public", service))

    @rule(step_ms=steps_ms)
    def let_time_pass(self, step_ms: int) -> None:
        """In one step, or by way of all times that the schedule asks for."""
        end_ms = self.now_ms + step_ms
        while True:
            pushes, next_ms = self.subscribers.tick(self.now_ms)
            self.take(pushes)
            assert next_ms is None or next_ms > self.now_ms, "all that is due was given"
            if next_ms is None or next_ms > end_ms:
                break
            self.now_ms = next_ms
        self.now_ms = end_ms

    def take(self, pushes: list[Push]) -> None:
        firsts = set()
        for push in pushes:
            one = push.subscriber
            times = self.sent.setdefault(push.reference, [])
            if times:
                assert self.now_ms - times[-1] >= ACK_TIMEOUT_MS
            elif one.service not in firsts and one not in self.held:
                firsts.add(one.service)
                assert self.now_ms - self.pushed_ms.get(one.service, 0) >= SPACING_MS
                self.pushed_ms[one.service] = self.now_ms
            times.append(self.now_ms)
            self.open[one] = self.open.get(one, 0) + 1
            assert self.open[one] <= UNANSWERED_MAX
            self.held.discard(one)
            if self.open[one] == UNANSWERED_MAX:
                self.held.add(one)
            assert len(times) <= SENDS_MAX
            assert one in self.seen_ms, "nobody else is told"
            if one not in self.dead:
                self.heard[one] = self.versions[one.service]
                self.unanswered.append(push)

    @precondition(lambda self: self.unanswered)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Any of the pushes that came, in any order, and perhaps one that has been answered before."""
        push = data.draw(st.sampled_from(self.unanswered))
        if data.draw(st.booleans()):
            self.unanswered.remove(push)
        if self.subscribers.acknowledged(push.reference, self.now_ms):
            self.open[push.subscriber] = 0
        if self.kept(push.subscriber):
            self.seen_ms[push.subscriber] = self.now_ms

    def kept(self, one: Subscriber) -> bool:
        return one in self.subscribers.subscribers("public")

    @rule(step_ms=st.sampled_from([0, SPACING_MS]))
    def all_are_up_to_date_after_the_spacing(self, step_ms: int) -> None:
        self.let_time_pass(step_ms)
        self.let_time_pass(SPACING_MS)
        for one in self.alive():
            if self.open[one] >= UNANSWERED_MAX:
                continue  # it is told as soon as it answers
            assert self.heard[one] == self.versions[one.service], one

    def alive(self) -> Iterator[Subscriber]:
        """Clients that run and were heard of lately."""
        for one, seen_ms in self.seen_ms.items():
            if one not in self.dead and self.now_ms - seen_ms <= FORGET_MS:
                yield one

    @invariant()
    def whoever_lives_is_kept(self) -> None:
        known = set(self.subscribers.subscribers("public"))
        assert set(self.alive()) <= known
        assert len(known) == len(self.subscribers)

    @invariant()
    def one_push_a_subscriber_is_under_way(self) -> None:
        waiting = self.subscribers.waiting()
        assert len({one for one, _, _ in waiting}) == len(waiting)
        assert {one for one, _, _ in waiting} <= set(self.subscribers.subscribers("public"))

    @invariant()
    def the_record_adds_up(self) -> None:
        stats = self.subscribers.stats
        assert stats.succeeded + stats.failed <= stats.total == len(self.sent)


Clients.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
TestClients = Clients.TestCase
