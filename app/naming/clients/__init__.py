"""Clients with connections: what each publishes, the copies of peers' clients, and their codec."""
