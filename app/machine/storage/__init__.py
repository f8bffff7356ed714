"""Files in the data folder: SQLite of durable records, and the log that a restart of all members reads."""
