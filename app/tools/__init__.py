"""Tools that run beside a node and never in one: the audit, commands, the simulation, embedded clusters."""
