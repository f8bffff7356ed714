"""Scenarios of worlds, and members that lack one rule each."""
