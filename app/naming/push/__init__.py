"""Push of changes to subscribers: who is owed what, and the message."""
