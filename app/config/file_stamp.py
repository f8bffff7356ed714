"""The stamp of a configuration file, by which its readers notice a write while the node runs."""

from pathlib import Path


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Return a file's time of last change (ns) and size (bytes), which differ after a write; None without the file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
