"""Writes the pictures of docs/concepts.md: each shows the messages and decisions of three simulated members in order.

python -m scripts.docs.sequences            # write docs/pictures/*.svg
python -m scripts.docs.sequences --check    # exit code 1 when a file is out of date
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.tools.simulation.member.member import SimMember
from app.tools.simulation.transcript.entry import Entry, What
from app.tools.simulation.transcript.recorder import Recorder, recording
from app.tools.simulation.world.network import Weather
from app.tools.simulation.world.sim_clients import SimClient
from app.tools.simulation.world.sim_connections import ConnectedMember, SimConnections
from app.tools.simulation.world.world import World
from scripts.docs.sequence_svg import draw

TARGET = Path(__file__).resolve().parents[2] / "docs" / "pictures"
ORDERS = "DEFAULT_GROUP@@orders"
A, B, C = (f"10.0.0.{number}:8848" for number in (1, 2, 3))
"""The members; the hash of the name makes A responsible for ``orders``."""
SEED, FOUND_MS = 1, 60_000
"""When the pictures begin, the members have known each other for a minute."""


def registration(world: World, begin: Callable[[], None]) -> None:
    """A client registers at a member that is not responsible."""
    begin()
    _client(world, C).appear()
    world.run(1_000)


def merged_sends(world: World, begin: Callable[[], None]) -> None:
    """Four registrations, while each message takes up to 60 ms."""
    clients = [_client(world, A) for _ in range(4)]
    world.network.add(Weather(slow=1.0, slow_ms_max=60))
    begin()
    for number, client in enumerate(clients):
        world.after(3 * number, client.appear)
    world.run(1_000)


def verify(world: World, begin: Callable[[], None]) -> None:
    """One member loses a copy, as after a memory fault."""
    _client(world, A).appear()
    world.run(3_000)
    member = world.members[B]
    [key] = [key for key, _ in member.stored()]
    world.checker.forgive(member, key)
    begin()
    member.registry.upkeep.forget(key)
    world.trace(B, "loses its copy of orders", What.FAULT)
    world.run(3_000)


def responsibility(world: World, begin: Callable[[], None]) -> None:
    """The responsible member dies, and another takes over."""
    _client(world, B).appear()
    world.run(2_000)
    begin()
    world.kill(world.members[A])
    world.run(6_000)


def versions(world: World, begin: Callable[[], None]) -> None:
    """Two sides that do not reach each other both change the service; then the network is whole again."""
    one, other = _client(world, A), _client(world, C)
    one.appear()
    world.run(2_000)
    for peer in (B, C):
        world.network.cut(A, peer)
        world.network.cut(peer, A)
    world.run(14_000)
    begin()
    one.appear()
    other.appear()
    world.run(1_000)
    world.network.heal()
    world.trace(A, "reaches B and C again", What.FAULT)
    world.run(26)


def connected_clients(world: World, begin: Callable[[], None]) -> None:
    """An SDK of Nacos 2.x connects, publishes, and is cut off."""
    connections = SimConnections(world)
    member = connections.members()[1]
    begin()
    client_id = connections.connect(member)
    assert client_id is not None
    world.run(1_000)
    connections.end(member, client_id)
    world.run(1_000)


@dataclass(frozen=True, slots=True)
class Picture:
    """A story, the kind of its members, and the kinds of events that it hides."""

    title: str
    story: Callable[[World, Callable[[], None]], None]
    member_class: type[SimMember] = SimMember
    hidden: frozenset[What] = frozenset((What.LIST,))


PICTURES: Mapping[str, Picture] = {
    "registration": Picture("A registration's way", registration, hidden=frozenset()),
    "merged-sends": Picture("Changes that come while a send is under way", merged_sends),
    "verify": Picture("A verify round finds what is missing", verify),
    "responsibility": Picture("A responsible member dies", responsibility),
    "versions": Picture("Both sides of a split changed one service", versions),
    "clients": Picture("A client with a connection", connected_clients, ConnectedMember),
}
"""By the name of the file."""


def pictures() -> Iterator[tuple[str, str]]:
    """The name and the text of each picture's file."""
    for name, picture in PICTURES.items():
        yield f"{name}.svg", draw(picture.title, list(_events(picture)))


def _events(picture: Picture) -> Iterator[Entry]:
    entries: list[Entry] = []
    with _without_logs(), recording(Recorder(entries.append)):
        world = World(SEED, 3, member_class=picture.member_class)
        world.start_all(settle_ms=FOUND_MS)
        picture.story(world, entries.clear)
    for entry in entries:
        # A fetch is shown when the call is made, not when it is decided and queued.
        if not entry.minor and entry.what not in picture.hidden and not entry.text.startswith("will fetch"):
            yield entry


def _client(world: World, member: str) -> SimClient:
    client = world.add_client(ORDERS)
    client.members = [member]
    return client


@contextmanager
def _without_logs() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def main() -> int:
    """Write or check the pictures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when a file is out of date")
    if parser.parse_args().check:
        return int(any((TARGET / name).read_text(encoding="utf-8") != text for name, text in pictures()))
    TARGET.mkdir(exist_ok=True)
    for name, text in pictures():
        (TARGET / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
