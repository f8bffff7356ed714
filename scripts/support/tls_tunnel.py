"""A TLS tunnel to a node, in a separate process: it accepts plain connections and keeps their source addresses.

With it, clients that write raw bytes can reach a node that requires TLS. TLS has no half-open state: when a client ends
a connection, the tunnel closes TCP without a close_notify.
"""

import argparse
import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PART_BYTES = 1 << 16
READ_BYTES_MAX = 1 << 18


@contextlib.contextmanager
def tunnelled(address: str, ca: str) -> Iterator[str]:
    """Yield the address to connect to without TLS until the block ends; ``address`` itself without a ``ca``."""
    if not ca:
        yield address
        return
    command = [sys.executable, "-m", "scripts.support.tls_tunnel", address, ca]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None, "a pipe"
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


class _Tunnel:
    """Forwards bytes both ways; uses TLS directly, because no asyncio stream can close only one direction of it."""

    def __init__(self, address: str, ca: str) -> None:
        host, _, port = address.rpartition(":")
        self._at = host, int(port)
        self._context = ssl.create_default_context(cafile=ca)
        self._carrying: set[asyncio.Task[None]] = set()
        """Strong references to the tasks, because the loop keeps only weak ones."""

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection in the background."""
        task = asyncio.get_running_loop().create_task(self.carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until either side ends it."""
        source = writer.get_extra_info("peername")[0]
        with contextlib.suppress(OSError):
            there, node = await asyncio.open_connection(*self._at, local_addr=(source, 0), limit=READ_BYTES_MAX)
            came, gone = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = self._context.wrap_bio(came, gone, server_hostname=self._at[0])
            out = asyncio.ensure_future(asyncio.sleep(0))
            try:
                while not await self._is_shaken(session, there, node, came, gone):
                    pass
                out = asyncio.ensure_future(self._out(session, reader, node, gone))
                await self._back(session, there, writer, came)
            finally:
                out.cancel()
                node.transport.abort()
        writer.close()

    @staticmethod
    async def _is_shaken(
        session: ssl.SSLObject,
        there: asyncio.StreamReader,
        node: asyncio.StreamWriter,
        came: ssl.MemoryBIO,
        gone: ssl.MemoryBIO,
    ) -> bool:
        """Take one step of the handshake; return whether it is complete."""
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            node.write(gone.read())
            part = await there.read(PART_BYTES)
            if not part:
                raise ConnectionResetError("the node ended the handshake") from None
            came.write(part)
            return False
        node.write(gone.read())
        return True

    @staticmethod
    async def _out(
        session: ssl.SSLObject, reader: asyncio.StreamReader, node: asyncio.StreamWriter, gone: ssl.MemoryBIO
    ) -> None:
        with contextlib.suppress(OSError):
            while part := await reader.read(PART_BYTES):
                session.write(part)
                node.write(gone.read())
                await node.drain()
            node.write_eof()

    @staticmethod
    async def _back(
        session: ssl.SSLObject, there: asyncio.StreamReader, writer: asyncio.StreamWriter, came: ssl.MemoryBIO
    ) -> None:
        while part := await there.read(PART_BYTES):
            came.write(part)
            try:
                while plain := session.read(PART_BYTES):
                    writer.write(plain)
                    await writer.drain()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLZeroReturnError:
                return


async def _serve(address: str, ca: str) -> None:
    tunnel = _Tunnel(address, ca)
    server = await asyncio.start_server(tunnel.begin, "127.0.0.1", 0, limit=READ_BYTES_MAX, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> int:
    """Print the port, then serve until this process is killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("address")
    parser.add_argument("ca")
    options = parser.parse_args()
    asyncio.run(_serve(options.address, options.ca))
    return 0


if __name__ == "__main__":
    sys.exit(main())
