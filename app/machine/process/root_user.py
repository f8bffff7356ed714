"""The check for root: a node never needs to run as root."""

import os

from app.languages.catalogues import N_

ROOT_WARNING = N_(
    "RUNNING AS ROOT: a node does not need root, and anyone who exploits a flaw in it would become root. "
    "Run it as its own user, who owns the data folder"
)


def is_root() -> bool:
    """Return whether this process may do everything on its machine."""
    return os.geteuid() == 0
