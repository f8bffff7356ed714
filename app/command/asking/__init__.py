"""What commands share that ask a server: the connection, the errors and exit codes, options, tables."""
