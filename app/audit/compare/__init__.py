"""The difference of two members, live and without Spark."""
