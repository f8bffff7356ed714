"""The world around the members: time, chance, network, clients, faults, and what must hold."""
