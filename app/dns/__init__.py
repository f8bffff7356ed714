"""Frontend 3, DNS: the healthy instances of services as A, AAAA and SRV records."""
