"""The interface to SQLite, PostgreSQL and Citus: transactions, bulk rows, migrations.

- what other packages use: `port`, `statements`, `batching`, `change_notifier`, `last_uses`,
  `sweeping`, `clock`
- which database: `addresses`, `hosts`, `deployment`, `schema`, `backup`
- SQLite: `sqlite`, `sqlite_transaction`, `commit_thread`
- PostgreSQL: `postgres`, `postgres_transaction`, `pool`, `primary`
- Citus: `citus`, `citus_functions`, `citus_statements`, `citus_transaction`
- failures: `retries`, `suspension`
"""
