"""HTTP: connections and their turns, request parsing and its limits, messages."""
