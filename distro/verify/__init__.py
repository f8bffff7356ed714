"""Verify rounds: whether two members hold the same."""
