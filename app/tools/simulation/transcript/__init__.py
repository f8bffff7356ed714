"""The transcript of a world, event by event: entries, their collection, and their output."""
