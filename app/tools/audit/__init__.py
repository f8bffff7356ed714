"""The audit: dumps of all members at about the same moment, and the check that compares them."""
