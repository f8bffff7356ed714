"""A small service that registers itself with a registry, and finds the others there."""
