"""Whole members on a simulated network, in virtual time: the real domain, engine and frontend, driven by one seed."""
