"""Commands about what a cluster holds: each asks one member, and shows a table or JSON."""
