"""The stamp of a configuration file, by which its readers notice a write while the node runs."""

from pathlib import Path


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Return what differs when a file was written, or another one is there by its name; None without the file.

    Its times (ns), its size (bytes) and what the file system knows it by: a file that was put in its place, by its own
    name or that of a link on the way, may have the same size, and the time of the one that it is a copy of.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev, status.st_ino
