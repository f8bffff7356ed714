"""What holds of one conversation, by its seed: each is an AssertionError that names it otherwise."""

import random
from collections import Counter

from tests.differential.conversations import Conversation, conversation
from tests.differential.echo_port import EchoPort, play_without_socket
from tests.differential.echo_servers import AskedGrpcio, OurEcho, Outcome, outcome
from tests.support.http2_client import ByHand, Heard

CHANGES_MAX = 6


def compare(port: int, seed: int) -> Counter[str]:
    """Whole, in pieces and padded our machine answers a conversation as grpcio at ``port`` does; counts statuses."""
    talk, chosen, statuses = conversation(seed), random.Random(seed), Counter[str]()
    theirs = AskedGrpcio(port, talk).ask()
    ways = {
        "whole": OurEcho().take([talk.data]),
        "in pieces": OurEcho().take(talk.pieces(chosen)),
        "in pieces, late": OurEcho(chosen).take(talk.pieces(chosen)),
        "padded": OurEcho().take([talk.padded(chosen)]),
    }
    for way, ours in ways.items():
        assert ours.server.ended is None, f"seed {seed}, {way}: {ours.server.ended}"
        for stream in talk.compared:
            found, wanted = outcome(ours, stream), outcome(theirs, stream)
            assert found == wanted, f"seed {seed}, {way}, {stream}: {_short(found)}, grpcio: {_short(wanted)}"
        acknowledged = _acknowledged(theirs)
        assert _acknowledged(ours)[: len(acknowledged)] == acknowledged, f"seed {seed}, {way}: other PINGs"
        check_left(ours, f"seed {seed}, {way}")
        assert ours.server.streams == 0, f"seed {seed}, {way}: streams are left"
    statuses.update(outcome(theirs, stream)[1] or "none" for stream in talk.compared)
    return statuses


def _short(found: Outcome) -> str:
    return f"{found[:3]} {[f'{len(one)} bytes {one[:2]!r}' for one in found[3]]}"


def _acknowledged(heard: Heard) -> list[bytes]:
    return [one.content for one in heard.of("PING") if one.flags & 1]


def check_left(ours: ByHand, where: str) -> None:
    """What counts as kept is what is kept."""
    server, kept = ours.server, 0
    if server.ended is None:
        readers = [one.reader for one in server._streams.values() if one.reader is not None]
        held = sum(one.held for one in server._streams.values())
        kept = sum(len(one.kept) for one in readers) + held + server.replies.bytes
    assert ours.kept.count == kept, f"{where}: {ours.kept.count} bytes count, {kept} are kept"


def changed(talk: Conversation, chosen: random.Random) -> bytes:
    """A conversation with bits flipped, and with frames dropped, doubled, put elsewhere, or cut."""
    frames = list(talk.frames)
    for _ in range(chosen.randint(1, CHANGES_MAX)):
        at = chosen.randrange(len(frames))
        match chosen.choice(("flip", "flip", "drop", "double", "move", "cut", "insert")):
            case "flip" if frames[at]:
                one, bit = bytearray(frames[at]), chosen.randrange(8)
                # In its head, more often than not: contents are mostly of bytes that mean nothing.
                where = chosen.randrange(len(one) if chosen.random() < 0.4 else min(len(one), 20))
                one[where] ^= 1 << bit
                frames[at] = bytes(one)
            case "drop":
                frames[at] = b""
            case "double":
                frames.insert(at, frames[at])
            case "move":
                frames.insert(chosen.randrange(len(frames)), frames.pop(at))
            case "cut":
                frames[at] = frames[at][: chosen.randint(0, len(frames[at]))]
            case "insert":
                frames.insert(at, chosen.randbytes(chosen.randint(1, 30)))
    data = b"".join(frames)
    return data[: chosen.randint(0, len(data))] if chosen.random() < 0.2 else data


async def mutate(port: EchoPort, seed: int) -> str:
    """Nothing unforeseen comes of a changed conversation, and nothing is left; returns how the machine ended it."""
    chosen = random.Random(seed)
    talk = conversation(seed)
    data = changed(talk, chosen)
    pieces = Conversation(seed, [data]).pieces(chosen)
    ours = OurEcho(chosen).take(pieces)
    check_left(ours, f"seed {seed}")
    await play_without_socket(port, pieces, chosen)
    port.check_empty()
    return "goes on" if ours.server.ended is None else ours.server.ended.code.name
