"""A member's wall clock that jumps while the member runs; its monotonic clock goes on as it is.

A namespace of time moves the monotonic clocks alone, so a small library of our own (wall_clock.c), loaded into the
member's processes, moves what they read of the wall clock. libfaketime would do, but after a jump its sleeps fail.
"""

import mmap
import shutil
import struct
from pathlib import Path

from tests.chaos.network import run

SOURCE = Path(__file__).with_name("wall_clock.c")
OFFSET = struct.Struct("=q")


def unable() -> str:
    """Why no member's clock can be moved here; empty when it can."""
    return "" if shutil.which("cc") else "moving a wall clock needs a C compiler, cc"


class WallClock:
    """The wall clock of the processes that are started with ``environ``."""

    def __init__(self, folder: Path) -> None:
        """``folder`` takes the library and the file that the processes share with this one.

        Raises:
            Unable: the library cannot be made.
        """
        library, shared = folder / "wall_clock.so", folder / "wall_clock.offset"
        run("cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl")
        shared.write_bytes(OFFSET.pack(0))
        self.environ = {"LD_PRELOAD": str(library), "ROLLCALL_CHAOS_CLOCK": str(shared)}
        with shared.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), OFFSET.size)

    def jump(self, offset_s: int) -> None:
        """Show the true time plus ``offset_s`` from now on."""
        self._shared[:] = OFFSET.pack(offset_s)
