"""When a configuration file was last written, for what reads it again while the node runs."""

from pathlib import Path


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Return the time of a file's last change in ns and its bytes, which differ once it is written; None without it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
