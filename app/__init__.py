"""Rollcall: the node, its doors and its naming domain."""
