"""One member in virtual time: its frontend, calls, disk and connections."""
