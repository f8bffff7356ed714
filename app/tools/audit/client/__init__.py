"""Calls to the members that are dumped or compared: arguments, access, one HTTP client."""
