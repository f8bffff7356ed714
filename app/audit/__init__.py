"""The audit: dumps of all members at about one moment, and the check that compares them."""
