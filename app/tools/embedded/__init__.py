"""Whole nodes in the process of a user's tests: real ports, a clock to put forward, a network to cut."""
