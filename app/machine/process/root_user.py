"""The check for root: a node never needs to run as root."""

import os

ROOT_WARNING = (
    "RUNNING AS ROOT: a node needs no right of root's; whoever finds a fault in it would have all of them. Run it as a "
    "user of its own, to whom the data folder belongs"
)


def is_root() -> bool:
    """Return whether this process may do everything on its machine."""
    return os.geteuid() == 0
