"""Limits on the calls of one client address, for both frontends."""
