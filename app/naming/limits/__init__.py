"""Limits on the data that clients' writes may store at this member: the limits, the counts, the refusals."""
