"""Calls that another member answers: the owner of a service, or every peer."""
