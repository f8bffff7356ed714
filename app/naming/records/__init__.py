"""Durable records, and what readers see of them."""
