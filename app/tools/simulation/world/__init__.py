"""The world around the members: time, chance, network, clients, faults, and invariants."""
