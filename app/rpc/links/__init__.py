"""Connections to other members' gRPC ports, and the clients sent over them."""
