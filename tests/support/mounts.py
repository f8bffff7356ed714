"""File systems that only one process and its children have."""

import subprocess
import sys

MOUNTING = """
import os, subprocess, sys
end = sys.argv.index("--")
for words in sys.argv[1:end]:
    subprocess.run(["mount", *words.split()], check=True)
os.execv(sys.argv[end + 1], sys.argv[end + 1:])
"""
"""A program of the words of mounts, ``--`` and a command. No shell, as most drop variables with dots in their names."""


def unable_to_mount() -> str:
    """Why no member can have file systems of its own here; empty when it can."""
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False
    )
    return f"mounts of a member's own need root: {tried.stderr.strip()}" if tried.returncode else ""


def with_mounts(*mounts: str) -> tuple[str, ...]:
    """The words before a command that is to have these mounts for itself."""
    return ("unshare", "-m", sys.executable, "-c", MOUNTING, *mounts, "--")
