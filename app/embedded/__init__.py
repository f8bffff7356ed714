"""Whole nodes in the process of somebody's tests: real ports, a clock to put forward, a network to cut."""
