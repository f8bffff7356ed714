"""A bare grpc.aio server as the baseline for calls: it echoes each message. Takes its port as an argument."""

import asyncio
import sys

import grpc
from grpc import aio

from app.peers.payload import REQUEST_METHOD


async def _echo(message: bytes, _context: object) -> bytes:
    return message


class _Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return grpc.unary_unary_rpc_method_handler(_echo) if details.method == REQUEST_METHOD else None


async def serve(port: int) -> None:
    server = aio.server(handlers=[_Echo()])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
