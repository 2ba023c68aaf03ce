"""The port to SQLite and PostgreSQL: transactions, bulk rows, migrations."""
