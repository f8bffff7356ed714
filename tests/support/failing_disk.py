"""A member's data folder that stops to take changes while the member runs, and takes them again."""

import mmap
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("failing_disk.c")
FAULT = struct.Struct("=i")


class FailingDisk:
    """The files in ``folder`` as processes see them that are started with ``environ``."""

    def __init__(self, work: Path, folder: Path) -> None:
        """``work`` takes the library, and the file that the processes share with this one; it needs a C compiler."""
        library, shared = work / "failing_disk.so", work / "failing_disk.fault"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
        shared.write_bytes(FAULT.pack(0))
        self.environ = {
            "LD_PRELOAD": str(library),
            "ROLLCALL_TEST_DISK": str(shared),
            "ROLLCALL_TEST_FOLDER": str(folder),
        }
        with shared.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), FAULT.size)

    def fail(self, number: int) -> None:
        """Let every change fail with this errno from now on; 0: none any more."""
        self._shared[:] = FAULT.pack(number)
