"""Door 1: the Nacos v1 HTTP API."""
