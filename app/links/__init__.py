"""Links to other clusters: the feed that others follow, and the followers of other clusters' feeds."""
