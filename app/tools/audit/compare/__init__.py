"""The differences between two members, live and without Spark."""
