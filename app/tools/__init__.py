"""Tools that run next to a node and never in one: the audit, commands, the simulation, embedded clusters."""
