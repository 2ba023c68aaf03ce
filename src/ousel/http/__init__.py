"""HTTP: connections and their turns, arrivals, request parsing and its limits, messages."""
