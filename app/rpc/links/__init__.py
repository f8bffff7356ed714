"""Connections to other members' gRPC ports, and what is sent over them."""
