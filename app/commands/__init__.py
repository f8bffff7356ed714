"""Writes that the member responsible for a key must execute, however they reached the cluster."""
