"""What every HTTP endpoint is written in: calls, replies and the table of routes."""
