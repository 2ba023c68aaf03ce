"""The interface to SQLite and PostgreSQL: transactions, bulk rows, migrations."""
