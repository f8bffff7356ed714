"""The demonstration: three members, clients of both kinds, and faults on request."""
