"""The naming domain: services and their instances, without I/O, threads or a framework."""
