"""The types of every endpoint: calls, replies and the table of routes."""
