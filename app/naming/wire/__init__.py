"""The JSON of services: datums, list answers, checksums."""
