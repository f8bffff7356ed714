"""Push of changes to subscribers: the schedule, the subscribers over UDP, and the payload."""
