"""Distro: the AP replication engine. It knows keys, versions and opaque values, never an instance."""
