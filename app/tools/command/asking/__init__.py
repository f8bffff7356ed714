"""The shared parts of commands that ask a server: the connection, the errors and exit codes, options, tables."""
