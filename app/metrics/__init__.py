"""What a node tells of itself: counters as metrics, and logs of accesses and of changes."""
