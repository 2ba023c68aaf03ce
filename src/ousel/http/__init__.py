"""HTTP: connections, request parsing and its limits, messages."""
