"""The world around the members: time, chance, network, clients, connections, faults, and invariants."""
