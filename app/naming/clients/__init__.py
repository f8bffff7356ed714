"""Clients with connections: their publications, the copies of peers' clients, and their codec."""
