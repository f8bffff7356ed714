"""Joins the naming domain to the engine: stores, codecs, membership, and what peers send."""
