"""Slow commits on SQLite."""

import time

from ousel.database.sqlite import SqliteDatabase


def commit_slowly(database: SqliteDatabase, seconds: float) -> None:
    """Make every commit of this database take this many seconds longer."""

    def wait(statement: str) -> None:
        if statement == "COMMIT":
            time.sleep(seconds)

    assert database._writer is not None  # noqa: SLF001
    database._writer.set_trace_callback(wait)  # noqa: SLF001
