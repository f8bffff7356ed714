"""The threads: the one that owns the protocol, those that make its calls, and what passes between them."""
