"""The demonstration: three members, clients over HTTP and gRPC, and faults on request."""
