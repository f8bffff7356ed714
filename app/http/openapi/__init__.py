"""The description of the API: OpenAPI 3.1 from the route table, and the same as pages."""
