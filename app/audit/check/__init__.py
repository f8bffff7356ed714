"""The nightly check: the dumps of all members compared on Spark, and what their differences mean."""
