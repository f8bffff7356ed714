"""The console: pages for browsers, made on the threads of the pool, of what calls of the API answer their user."""
