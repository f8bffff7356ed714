"""The values of the domain: instances, services, keys, events, switches, errors."""
