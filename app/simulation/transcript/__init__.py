"""What a world does, event by event: entries, who collects them, and how they are written."""
