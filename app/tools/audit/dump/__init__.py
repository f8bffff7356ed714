"""The dump: the state of every member, of any kind, taken twice into one store."""
