"""Backup and restore, with SQLite's own backup or pg_dump's custom format.

Servers may run during a backup.
"""

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from subprocess import PIPE
from typing import Final
from urllib.parse import parse_qsl, unquote

from ousel.database.addresses import is_postgres, sqlite_path
from ousel.database.hosts import ADDRESS, check_address, primary_url
from ousel.database.schema import OUSEL_TABLES, TABLES
from ousel.database.sqlite import wal_path
from ousel.kernel.errors import OperatorError
from ousel.kernel.files import flush, flush_folder, give_to_owner_of_folder
from ousel.kernel.programs import program

# PostgreSQL's tools try one host after the other. Without a timeout they would wait minutes for a
# host that is down.
_CONNECT_TIMEOUT: Final = {"PGCONNECT_TIMEOUT": "5"}
_PAGES_PER_STEP: Final = 1_000  # of 4 kB each; SQLite copies them without looking at signals


class BackupFailed(OperatorError):
    """A backup, an export or a restore failed; the text says why."""


class BackupDamaged(BackupFailed):
    """A database or a backup is damaged; the copy that was made of it is of no use."""


def back_up(url: str, target: Path) -> None:
    """Write one consistent snapshot of the database to a new file."""
    try:
        with write_atomically(target, "a backup") as unfinished:
            if is_postgres(url):
                _run("pg_dump", url, "--format=custom", f"--file={unfinished}")
                _check_dump(unfinished, "the database")
            else:
                # If no server runs, a connection that may write removes its log when it is closed.
                _copy_sqlite(sqlite_path(url), unfinished, "mode=rw")
    except OSError as error:
        raise BackupFailed(f"the backup cannot be written: {error}") from error


def restore(url: str, source: Path) -> None:
    """Fill an empty database from a backup; the caller checks first that it is empty."""
    if not source.is_file():
        raise BackupFailed(f"there is no backup at {source}")
    if is_postgres(url):
        contents = _check_dump(source, str(source))
        options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
        with tempfile.NamedTemporaryFile("w") as own:
            lines = contents.splitlines()
            own.write("\n".join(line for line in lines if " EXTENSION " not in line))
            own.flush()
            _run("pg_restore", url, *options, f"--use-list={own.name}", str(source.absolute()))
    else:
        target = sqlite_path(url).resolve()
        # Backups of older versions are in WAL mode. If they are `immutable`, SQLite reads them
        # without creating files beside them, but ignores a log.
        has_log = wal_path(source.resolve()).exists()
        with suppress(FileNotFoundError, PermissionError):
            target.chmod(target.stat().st_mode & ~stat.S_IRWXO)  # an empty file has no secrets yet
        try:
            _copy_sqlite(source, target, "mode=ro" if has_log else "mode=ro&immutable=1")
        except (KeyboardInterrupt, SystemExit, BackupDamaged):  # a signal may come after all steps
            with suppress(FileNotFoundError):
                os.truncate(target, 0)
            raise
        give_to_owner_of_folder(target)


@contextmanager
def write_atomically(target: Path, what: str) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to the target at the end.

    Existing files are not overwritten: raise BackupFailed if the target exists before the block or
    after it, or if there is no folder for it.
    """
    _check_absent(target, what)
    _check_folder(target)
    unfinished = target.with_name(f"{target.name}.{token_hex(4)}.unfinished")
    try:
        yield unfinished
        flush(unfinished)
        _check_absent(target, what)
        unfinished.rename(target)
        flush_folder(target.absolute().parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _check_absent(target: Path, what: str) -> None:
    if target.exists():
        raise BackupFailed(f"{target} exists already: {what} does not overwrite files")


def _check_folder(target: Path) -> None:
    folder = target.absolute().parent
    if not folder.is_dir():
        raise BackupFailed(f"there is no folder {folder}")


def _copy_sqlite(source: Path, target: Path, options: str) -> None:
    """Copy a ledger to a new or empty file; open the source with these options of SQLite's."""
    _check_folder(target)
    try:
        with closing(_connect_existing(source, options)) as reader:
            reader.execute("BEGIN")  # so that all steps of the copy see the same moment
            tables = {name for (name,) in reader.execute(TABLES["sqlite"].text)}
            if not tables >= OUSEL_TABLES:
                raise _no_ledger_in(str(source))
            with closing(sqlite3.connect(target.absolute(), check_same_thread=False)) as writer:
                # Python calls the function after each step, and only then a signal takes effect.
                reader.backup(writer, pages=_PAGES_PER_STEP, progress=lambda *_: None)
                # This ends WAL mode, so that SQLite can read the copy in a read-only folder.
                writer.execute("PRAGMA journal_mode = DELETE")
                reader.rollback()  # servers can shorten their log while the copy is checked
                _check_copy(writer, source)
    except sqlite3.Error as error:
        raise BackupFailed(f"SQLite could not copy {source} to {target}: {error}") from error


def _check_copy(copy: sqlite3.Connection, source: Path) -> None:
    """Check every page, row and index of the copy, which has all damage of its source.

    The check runs on a thread, so that a signal can end it.
    """
    with ThreadPoolExecutor(1) as pool:
        checking = pool.submit(_first_damage, copy)
        try:
            damage = checking.result()
        except (KeyboardInterrupt, SystemExit):
            copy.interrupt()
            raise
    if damage is not None:
        raise BackupDamaged(f"{source} is damaged: SQLite says “{' '.join(damage.split())}”")


def _first_damage(copy: sqlite3.Connection) -> str | None:
    try:
        (finding,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if finding == "ok" else str(finding)


def _connect_existing(path: Path, options: str) -> sqlite3.Connection:
    """Open an existing file; its URI escapes special characters in its name."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True)


def _check_dump(file: Path, name: str) -> str:
    """Check with PostgreSQL's own tool that the dump contains a ledger; return its contents."""
    contents = _output("pg_restore", "--list", str(file.absolute()))
    if not all(re.search(rf" TABLE .*\b{table} ", contents) for table in OUSEL_TABLES):
        raise _no_ledger_in(name)
    return contents


def _no_ledger_in(name: str) -> BackupFailed:
    return BackupFailed(f"{name} contains no Ousel ledger")


def _run(tool: str, url: str, *arguments: str) -> None:
    """Run a tool on a database; hide the password, since others can see a process's arguments."""
    public_url, password = _split_password(primary_url(url))
    check_address(url)
    _output(tool, f"--dbname={public_url}", *arguments, **password)


def _output(tool: str, *arguments: str, **environment: str) -> str:
    """Return what one of PostgreSQL's tools prints, or raise BackupFailed."""
    path = shutil.which(tool)
    if path is None:
        raise BackupFailed(f"{tool} is not installed: it comes with PostgreSQL's client tools")
    variables = _CONNECT_TIMEOUT | os.environ | environment
    with program([path, *arguments], variables, stdout=PIPE, stderr=PIPE) as process:
        output, errors = (part.decode(errors="replace") for part in process.communicate())
    if process.returncode != 0:
        reason, *others = errors.strip().splitlines() or ["it printed nothing"]
        versions = [line for line in others[:1] if "server version: " in line]
        raise BackupFailed(f"{tool} failed: {'; '.join([reason, *versions])}")
    return output


def _split_password(url: str) -> tuple[str, dict[str, str]]:
    """Return the address without its password, and the environment variable that holds it."""
    parts = ADDRESS.fullmatch(url)
    if parts is None:
        raise BackupFailed("the database's address is invalid: escape special characters in it")
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
        raise BackupFailed(
            "PostgreSQL's tools would show the sslpassword to everyone: remove it from the address"
        )
    # If the address has a password before the host and one in its options, the driver of Ousel's
    # servers uses the one before the host.
    used_password = unquote(password) or secrets["password"]
    address = scheme + user + place + ("?" + "&".join(public) if public else "")
    return address, {"PGPASSWORD": used_password} if used_password else {}
