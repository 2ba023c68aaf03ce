"""The framework of the endpoints: routes, authentication, decoding, problems, paging, OpenAPI."""
