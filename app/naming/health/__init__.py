"""Health by beats and by active checks, as decisions without clocks or sockets."""
