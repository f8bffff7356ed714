"""Writes that the member responsible for a key must execute, whichever member and frontend got them."""
