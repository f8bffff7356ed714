"""Links to other clusters: the feed that others follow, the followers of their feeds, and clients of Nacos."""
