"""Requests of SDKs over gRPC, and pushes to them."""
