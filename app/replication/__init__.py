"""Joins the naming domain to the engine: stores, codecs, and the calls of peers."""
