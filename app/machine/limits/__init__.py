"""Limits of what one client address may do, for both frontends."""
