"""The findings of a committed night, as a table or as lines."""
