"""Mail: an outbox in the database, and a sender that empties it."""
