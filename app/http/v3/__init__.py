"""The endpoints of HTTP API v3: the operations of v1 and v2 under the paths of Nacos 3, with its answers."""
