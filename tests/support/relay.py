"""A TCP relay that can begin to swallow all it is given, as a network does whose route is lost: nobody gets an end."""

import asyncio
from contextlib import suppress

CHUNK_BYTES = 1 << 16


class Relay:
    """Carries connections to a port of this machine; ``async with`` ends them."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._swallows = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for one in self._tasks:
            one.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def swallow(self) -> None:
        """From now on nothing arrives at either side, ends neither."""
        self._swallows = True

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._writers += [writer, there_writer]
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.get_running_loop().create_task(self._pump(source, target))
            self._tasks.add(task)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                if not self._swallows:
                    target.write(data)
                    await target.drain()
            if not self._swallows:
                target.close()
