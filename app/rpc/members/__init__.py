"""Requests that other members send over gRPC."""
