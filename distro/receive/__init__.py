"""What comes from peers, and what becomes of it."""
