"""HTTP: connections and turns, what waits unread, request parsing and its limits, messages."""
