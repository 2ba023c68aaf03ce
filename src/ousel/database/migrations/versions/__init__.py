"""One file for each migration, in SQL that both engines understand."""
