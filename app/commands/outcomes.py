"""How the execution of a write ends: values that a frontend makes its answer from."""

from typing import NamedTuple

from app.commands.ownership import Forward
from app.naming.model.model import Instance
from app.naming.registry.remaining_instances import Remaining


class Waits:
    """Nothing was done yet: the write takes longer than the event loop has, and is to be executed on a thread."""


WAITS = Waits()


class Done(NamedTuple):
    """The write is executed."""

    change: bytes | None = None
    """The instance as the write left it, for the member that passed the call on; None for other callers."""
    made_at: str = ""
    """The time from which the ages in the change count, as text; empty where there are none, and in a batch."""


class Beaten(NamedTuple):
    """A beat is taken."""

    interval_ms: int
    """The time to the client's next beat."""
    known: bool
    """False: the client has to register again."""
    light: bool
    """The client may send beats that do not describe the instance."""
    done: Done


class Changed(NamedTuple):
    """A batch is executed."""

    instances: tuple[Instance, ...]
    """The changed instances, as they were before."""


class Remained(NamedTuple):
    """A change of several instances is executed."""

    counts: Remaining
    """The instances of the service that clients call, before and after."""


class Unchanged:
    """The command asks for nothing that may be done, and nothing was."""


Outcome = Done | Beaten | Changed | Remained | Unchanged | Forward | Waits
DONE, UNCHANGED = Done(), Unchanged()
