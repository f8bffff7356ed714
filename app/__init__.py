"""Rollcall: the node, its frontends and its naming domain."""
