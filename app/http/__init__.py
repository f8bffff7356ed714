"""The HTTP frontend: the APIs v1 and v2 of Nacos, on the event loop and in Flask behind it."""
