"""The stamp of a configuration file, which shows its readers a write while the node runs."""

from pathlib import Path


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Return a stamp that changes when the file is written or replaced; None without the file.

    It has the file's times (ns), its size (bytes) and its identity in the file system. A file that replaces another, by
    its own name or that of a link on the way, may have the same size, and the time of the file that it was copied from.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev, status.st_ino
