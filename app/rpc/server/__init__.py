"""The gRPC ports: bytes, connections, order of checks, limits."""
