"""The watch between nights: the digests of all members, every few minutes."""
