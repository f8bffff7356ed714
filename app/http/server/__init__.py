"""gunicorn's worker: the event loop, its connections, and the bridge to Flask."""
