"""A partner's program that follows its account, and stores each transfer with its cursor.

It runs as a process of its own, so that a test can kill it at any moment. Nothing in its database
prevents a transfer from being stored twice: only the cursor does.
"""

import sqlite3
import sys
import time
from pathlib import Path

from ousel_client import Client, RetryPolicy
from tests.faults.sizes import sized

WORK_SECONDS = sized(0.003, 0.0)  # for each transfer, so that a kill often comes within a page
PATIENT = RetryPolicy(attempts_max=10_000, delay_seconds_max=0.5)


def open_books(path: Path) -> sqlite3.Connection:
    """Open the program's own database."""
    books = sqlite3.connect(path, timeout=60, isolation_level=None)
    books.execute("PRAGMA journal_mode = WAL")
    books.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing by this
    books.execute("CREATE TABLE IF NOT EXISTS transfers (sequence INTEGER, id TEXT)")
    books.execute("CREATE TABLE IF NOT EXISTS positions (cursor TEXT)")
    return books


def follow(base_url: str, key: str, path: Path) -> None:
    """Follow the account until the process is killed."""
    books = open_books(path)
    row = books.execute("SELECT cursor FROM positions").fetchone()
    client = Client(key, base_url=base_url, retry=PATIENT)
    following = client.transfers.follow(None if row is None else row[0])
    for transfer in following:
        books.execute("BEGIN")
        books.execute("INSERT INTO transfers VALUES (?, ?)", (transfer.sequence, transfer.id))
        books.execute("DELETE FROM positions")
        books.execute("INSERT INTO positions VALUES (?)", (following.cursor,))
        books.execute("COMMIT")
        time.sleep(WORK_SECONDS)


if __name__ == "__main__":
    follow(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
