"""The description of the API: OpenAPI 3.1 made of the route table, and the same as pages."""
