"""The nightly check: the dumps of all members compared on Spark, and their differences told as findings."""
