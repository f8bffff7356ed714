"""In the end a client knows exactly the services that are there, whatever came, went, got lost or was answered late."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from app.rpc.sdk import fuzzy_state
from app.rpc.sdk.fuzzy_state import ServiceNames
from app.rpc.sdk.fuzzy_watches import ACK_MS, RETRY_MS, FuzzyWatches
from app.rpc.server.fuzzy_pattern import FuzzyPattern

NAMES = [f"{group}@@{number}" for group in ("g", "h") for number in range(4)]
WATCHED = FuzzyPattern.of("public>>g>>*")
CLIENT = "c"


class JavaClient:
    """A client that keeps services as the Java library does: it takes each in a list for one that came."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.inbox: deque[tuple[str, list[tuple[str, bool]], bool]] = deque()
        """The messages that it has not read: request id, services, and whether it is a list."""
        self.unanswered: list[str] = []

    def read(self) -> None:
        request_id, services, is_list = self.inbox.popleft()
        for name, is_there in services:
            if is_there or is_list:
                self.known.add(name)
            else:
                self.known.discard(name)
        self.unanswered.append(request_id)


class World:
    """The watches of a member, and one client, which may have another list at first."""

    def __init__(self) -> None:
        self.watches = FuzzyWatches(0, 0, 0)
        self.client = JavaClient()
        self.there: set[str] = set()
        self.now_ms, self.ids = 0, 0

    def ask(self) -> None:
        namespace, _ = self.watches.watch(CLIENT, WATCHED)
        if namespace.present is None:
            self.watches.loaded(namespace, set(self.there), self.there.__contains__)
        matching = {name for name in self.there if WATCHED.matches(name)}
        new, gone = sorted(matching - self.client.known), sorted(self.client.known - matching)
        self.watches.send_names(CLIENT, ServiceNames(WATCHED, False, new + gone, len(new)))

    def toggle(self, name: str) -> None:
        self.there ^= {name}
        self.watches.look(("public", name), name in self.there)

    def send(self) -> None:
        self.watches.tick(self.now_ms)
        for watcher in self.watches.ready():
            while (one := self.watches.take(watcher)) is not None:
                self.ids += 1
                if one.batch is not None:
                    services = list(self.watches.batch(one.batch))
                else:
                    assert one.key is not None
                    services = [(one.key[1], self.watches.is_there(one.key))]
                self.watches.sent(one, str(self.ids), self.now_ms)
                self.client.inbox.append((str(self.ids), services, one.batch is not None))

    def answer(self, *, well: bool) -> None:
        for request_id in self.client.unanswered:
            self.watches.answered(CLIENT, request_id, well, self.now_ms)
        self.client.unanswered.clear()

    def settle(self) -> None:
        """Let everything be sent, read and answered."""
        for _ in range(100):
            self.send()
            while self.client.inbox:
                self.client.read()
            self.answer(well=True)
            self.now_ms += RETRY_MS


STEPS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(["ask", "send", "read", "answer", "refuse", "time out", "cancel", "move"]),
)


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES[:4])), st.lists(STEPS, max_size=40))
def test_a_client_knows_what_is_there(there: set[str], known: set[str], steps: list[str]) -> None:
    world = World()
    world.there, world.client.known = there, known
    world.ask()
    for step in steps:
        match step:
            case "ask":
                world.ask()
            case "send":
                world.send()
            case "read":
                if world.client.inbox:
                    world.client.read()
            case "answer" | "refuse":
                world.answer(well=step == "answer")
            case "time out":
                world.now_ms += ACK_MS
            case "cancel":
                world.watches.cancel(CLIENT, WATCHED.text)
                world.ask()
            case "move":  # to another member, with what it read so far
                world.watches.forget(CLIENT)
                world.client.inbox.clear()
                world.client.unanswered.clear()
                world.ask()
            case name:
                world.toggle(name)
    given_up = world.watches.stats.given_up
    world.settle()
    if given_up:  # as after three minutes
        world.ask()
        world.settle()
    assert world.client.known == {name for name in world.there if WATCHED.matches(name)}
    assert (world.watches.queued, world.watches.next_due_ms()) == (0, None)
    assert len(NAMES) < fuzzy_state.BATCH_NAMES
