"""The framework for endpoints: routes, authentication, decoding, problems, paging, OpenAPI.

- from a request to an endpoint: `router`, `route_table`, `route`, `endpoint_server`, `decoding`,
  `fields`, `idempotency`
- who may call, and how often: `authentication`, `callers`, `origins`, `rate_limits`
- refusals: `refusals`, `problems`, `error_log`, `disturbances`
- lists and waiting: `paging`, `polling`
- what is watched: `observers`, `traces`, `health`
- documents and files: `openapi`, `static_files`
"""
