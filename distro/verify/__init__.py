"""Verify rounds: they find whether two members hold the same."""
