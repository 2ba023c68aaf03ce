"""One file a step, each in SQL that both engines read."""
