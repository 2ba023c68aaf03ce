"""A deterministic simulation: the real services on simulated time, processes and databases.

Everything follows from one seed, so a failure can be repeated exactly:

    python -m tests.simulation --seeds 17 --trace

What is real: the services as `ousel.app.services` wires them (the posting queue and its batches,
charges, OAuth), the retry policy, all SQL statements and the schema, and for SQLite the whole of
`ousel.database.sqlite`. What is simulated: time, the network between clients and processes, the
processes themselves (they freeze, are killed and restart), and the database's behaviour:

- `postgres.py` and `server.py` stand in for the PostgreSQL adapter, behind the port. Several
  transactions are open at once, with row locks, lock timeouts, deadlocks, and statements that see
  what was committed before they started. Connections break, commits and their answers are lost or
  late, and a switch of the leader may lose the last commits.
- `sqlite_driver.py` stands in for Python's `sqlite3` module. One connection writes at a time, and
  a flush can fail; what it wrote may come back after a restart.

What is not simulated: HTTP, authentication and pages; the asyncpg driver and the connection pool
(`tests/database` and `tests/faults` test them on a real server); damaged files; predicate locks,
isolation levels other than READ COMMITTED, and locks on rows that are being deleted. Processor
time is free: a callback takes no simulated time.
"""
