"""The engine's vocabulary: values, ports, errors, counters, and the digest of keys."""
