"""The faults of the demonstration, by the words that ask for them."""

from collections.abc import Mapping

PAUSE_S = 10.0
KILL, START, PAUSE, SILENCE, CRASH = "kill", "start", "pause", "silence", "crash"
FAULTS: Mapping[str, str] = {
    KILL: "kill the last member that runs, as a power failure does",
    START: "start the killed member again",
    PAUSE: f"stop the last member that runs for {PAUSE_S:.0f} s, as a long garbage collection does",
    SILENCE: "let an instance over HTTP send no more beats: it is unhealthy after 15 s and removed after 30 s",
    CRASH: "end a client over gRPC without a word: its instance is removed at once",
}
"""What each does."""
