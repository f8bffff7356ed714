"""The endpoints of HTTP API v2: the operations of v1 in the envelope of Nacos 2."""
