"""Backup and restore, while servers run: SQLite's own backup, or pg_dump's custom format."""

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Final
from urllib.parse import parse_qsl, unquote

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.database.hosts import ADDRESS, to_primary

# PostgreSQL's tools try one host after the other; without this, a dead one holds them for minutes.
_PATIENCE: Final = {"PGCONNECT_TIMEOUT": "5"}

_JOURNAL: Final = "entries"  # the table without which there are no books


class BackupFailed(Exception):
    """A backup, an export or a restore that could not be made; its text says why."""


def back_up(url: str, target: Path) -> None:
    """Write the database, as it is at one moment, to a new file."""
    try:
        with write_atomically(target, "a backup") as unfinished:
            if is_postgres(url):
                _run("pg_dump", url, "--format=custom", f"--file={unfinished}")
                _check_dump(unfinished, "the database")
            else:
                _copy_sqlite(sqlite_path(url), unfinished)
    except OSError as error:
        raise BackupFailed(f"the backup cannot be written: {error}") from error


def restore(url: str, source: Path) -> None:
    """Fill an empty database from a backup; one that is not empty is the caller's to refuse."""
    if not source.is_file():
        raise BackupFailed(f"there is no backup at {source}")
    if is_postgres(url):
        _check_dump(source, str(source))
        options = ("--exit-on-error", "--single-transaction", "--no-owner")
        _run("pg_restore", url, *options, str(source.absolute()))
    else:
        _copy_sqlite(source, sqlite_path(url))


@contextmanager
def write_atomically(target: Path, what: str) -> Iterator[Path]:
    """Lend a path that nobody else writes to; what is there in the end is then at the target.

    It overwrites nothing, nor what another command has put there meanwhile.
    """
    _check_absent(target, what)
    unfinished = target.with_name(f"{target.name}.{token_hex(4)}.unfinished")
    try:
        yield unfinished
        _check_absent(target, what)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _check_absent(target: Path, what: str) -> None:
    if target.exists():
        raise BackupFailed(f"{target} exists already: {what} overwrites nothing")


def _copy_sqlite(source: Path, target: Path) -> None:
    try:
        with closing(_reader(source)) as reader:
            if not reader.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name = ?", (_JOURNAL,)
            ).fetchall():
                raise _no_books(str(source))
            with closing(sqlite3.connect(target.absolute())) as writer:
                reader.backup(writer)
    except sqlite3.Error as error:
        raise BackupFailed(f"SQLite could not copy the database: {error}") from error


def _reader(path: Path) -> sqlite3.Connection:
    """Open a file that is there; whatever its name, its URI means no other."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _check_dump(file: Path, named: str) -> None:
    """See that the file has the books in it, by what PostgreSQL's own tool finds there."""
    contents = _output("pg_restore", "--list", str(file.absolute()))
    if not re.search(rf" TABLE .*\b{_JOURNAL} ", contents):
        raise _no_books(named)


def _no_books(named: str) -> BackupFailed:
    return BackupFailed(f"{named} holds no books of Ousel")


def _run(program: str, url: str, *arguments: str) -> None:
    """Run a tool on a database; the password is in no list of processes that others can see."""
    public_url, password = _split_password(to_primary(url))
    _output(program, f"--dbname={public_url}", *arguments, **password)


def _output(program: str, *arguments: str, **environment: str) -> str:
    """Return what one of PostgreSQL's tools prints."""
    path = shutil.which(program)
    if path is None:
        raise BackupFailed(f"{program} is not installed: it comes with PostgreSQL's client tools")
    ended = subprocess.run(  # noqa: S603 - PostgreSQL's own tool
        [path, *arguments],
        env=_PATIENCE | os.environ | environment,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines() or ["it said nothing"]
        raise BackupFailed(f"{program} failed: {lines[0]}")
    return ended.stdout


def _split_password(url: str) -> tuple[str, dict[str, str]]:
    """Return the address without its password, and the environment that hands it over."""
    parts = ADDRESS.fullmatch(url)
    if parts is None:
        raise BackupFailed("the database's address cannot be read: escape what is special in it")
    scheme, user, password, place, query = parts.groups(default="")
    secrets = {"password": "", "sslpassword": ""}
    public = []
    for option in filter(None, query.split("&")):
        [(name, value)] = parse_qsl(option, keep_blank_values=True)
        if name in secrets:
            secrets[name] = value
        else:
            public.append(option)
    if secrets["sslpassword"]:
        raise BackupFailed("PostgreSQL's tools take an sslpassword where all see it: use none")
    known = unquote(password) or secrets["password"]  # of two, the one that servers sign in with
    address = scheme + user + place + ("?" + "&".join(public) if public else "")
    return address, {"PGPASSWORD": known} if known else {}
