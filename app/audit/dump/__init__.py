"""The state of every member, of any kind, taken twice into one store."""
