"""The framework for endpoints: routes, authentication, decoding, problems, paging, OpenAPI."""
