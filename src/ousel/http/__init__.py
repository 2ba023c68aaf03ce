"""HTTP: listeners, connections and turns, what waits unread, parsing and its limits, messages."""
