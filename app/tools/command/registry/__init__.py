"""Commands about the contents of a cluster: each asks one member, and shows a table or JSON."""
