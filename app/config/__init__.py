"""Settings: read once, checked at once. Imports no other package of the project."""
