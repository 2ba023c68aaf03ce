"""HTTP: routes, callers, limits, problem answers and the OpenAPI document."""
