"""Slow commits on SQLite."""

import threading
import time

from ousel.database.sqlite import SqliteDatabase


def commit_slowly(database: SqliteDatabase, seconds: float) -> None:
    """Make every commit of this database take this many seconds longer."""

    def wait(statement: str) -> None:
        if statement == "COMMIT":
            time.sleep(seconds)

    assert database._writer is not None  # noqa: SLF001
    database._writer.set_trace_callback(wait)  # noqa: SLF001


class HeldCommits:
    """Holds every commit of a SQLite database until the test lets them go."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.begun = 0
        self._released = threading.Event()
        assert database._writer is not None  # noqa: SLF001
        database._writer.set_trace_callback(self._hold)  # noqa: SLF001

    def release(self) -> None:
        """Let these commits and all later ones go on."""
        self._released.set()

    def _hold(self, statement: str) -> None:
        if statement == "COMMIT":
            self.begun += 1
            self._released.wait()
