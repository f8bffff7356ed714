"""Work next to the calls: timers, active health checks, UDP push and the event bus."""
