"""The endpoints of HTTP API v1: one endpoint is one function."""
