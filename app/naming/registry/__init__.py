"""Services and their instances in memory: writes, versions, merges, the guard, the union of sources."""
