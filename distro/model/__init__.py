"""What the engine is written in: values, ports, errors, counters, the digest of keys."""
