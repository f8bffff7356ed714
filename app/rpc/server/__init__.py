"""The gRPC server: ports and streams, connections, the checks before a handler, limits of connections."""
