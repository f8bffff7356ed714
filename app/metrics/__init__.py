"""A node's reports on itself: counters as metrics, and logs of accesses and of changes."""
