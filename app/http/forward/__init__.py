"""Calls to other members over HTTP: writes for the owner of a service, batches of beats, questions."""
