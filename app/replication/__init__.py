"""Joins the naming domain to the engine: stores, codecs, membership, and the calls of peers."""
