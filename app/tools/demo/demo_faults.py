"""The faults of the demonstration, by the words that ask for them."""

from collections.abc import Mapping

from app.languages.catalogues import N_

PAUSE_S = 10.0
KILL, START, PAUSE, SILENCE, CRASH = "kill", "start", "pause", "silence", "crash"
FAULTS: Mapping[str, str] = {
    KILL: N_("kill the last member that runs, as a power failure does"),
    START: N_("start the killed member again"),
    PAUSE: N_("stop the last member that runs for 10 s, as a long garbage collection does"),
    SILENCE: N_("let an instance over HTTP send no more beats: it is unhealthy after 15 s and removed after 30 s"),
    CRASH: N_("end a client over gRPC without a word: its instance is removed at once"),
}
"""The effect of each."""
