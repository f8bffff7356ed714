"""TLS: certificates from files, read again when they change, for the HTTP and gRPC ports and for calls to members."""
