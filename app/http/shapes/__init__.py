"""The bodies of answers and of requests, as JSON schemas."""
