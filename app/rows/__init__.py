"""Rows of a dump, their digests and summaries, as nodes and the audit share them."""
