"""Durable records, and the state that readers derive from them."""
