"""The console: pages for browsers, made on the pool's threads from API calls in the name of their user."""
