"""The nightly check: it compares the dumps of all members on Spark, and reports their differences as findings."""
