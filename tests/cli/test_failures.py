"""Failures: one clear line on standard error, a non-zero exit, and nothing else."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from ousel.database.addresses import sqlite_path
from tests.cli.commands import (
    OUSEL,
    PROCESS_SECONDS_MAX,
    Operator,
    assert_fails,
    ousel,
    ousel_process,
)
from tests.support.accounts import unique_name
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.ports import free_port
from tests.support.raw_sql import RawSql

CREATE = ("account", "create", "--username", "x_1", "--email", "x@example.com", "--name", "X")
REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("account", "show", "@nobody_here"), "No account has this identifier"),
    (("account", "show", "OU001234567890"), "check digits are wrong"),
    (("account", "show", "nobody"), "No account has this identifier"),
    (("account", "freeze", "@nobody_here"), "No account has this identifier"),
    (("account", "unfreeze", "@nobody_here"), "No account has this identifier"),
    (("account", "fund", "@nobody_here", "5"), "No account has this identifier"),
    ((*CREATE, "--username", "a"), "3 to 30"),
    ((*CREATE, "--username", "ousel"), "reserved"),
    ((*CREATE, "--email", "nonsense"), "email must be"),
    ((*CREATE, "--name", " "), "display name must be"),
    ((*CREATE, "--name", "a\nb"), "display name must be"),
    (("app", "create", "--owner", "@nobody_here", "--name", "Shop"), "No account"),
    (("key", "issue", "app_x"), "No app has the client id app_x"),
    (("key", "list", "app_x"), "No app has the client id app_x"),
    (("key", "rotate", "sk_live_x"), "No key has the handle sk_live_x"),
    (("key", "revoke", "sk_live_x"), "No key has the handle sk_live_x"),
)
AMOUNTS = ("0", "-0", "0.0000001", "1e9", "NaN", "Infinity", "five", "", "5,00", "1" * 400, "5 ")
MISUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("nonsense",), "No such command 'nonsense'"),
    (("account", "nonsense"), "No such command 'nonsense'"),
    (("account", "fund"), "Missing argument 'identifier'"),
    (("account", "fund", "@ada"), "Missing argument 'amount'"),
    (("account", "fund", "@ada", "-5"), "No such option: -5"),
    (("account", "create"), "Missing option"),
    (("account", "list", "extra"), "unexpected extra argument"),
    (("account", "list", "--jsno"), "No such option: --jsno"),
    (("serve", "--port", "0"), "--port"),
    (("serve", "--port", "65536"), "--port"),
    (("serve", "--port", "http"), "--port"),
    (("serve", "--workers", "0"), "--workers"),
    (("key", "rotate", "h", "--overlap-hours", "soon"), "--overlap-hours"),
)
SETTINGS = (
    ("OUSEL_RATE_LIMIT", "banana"),
    ("OUSEL_QUEUE_LIMIT", "0"),
    ("OUSEL_LOG_LEVEL", "loud"),
    ("OUSEL_SANDBOX", "yes"),
    ("OUSEL_BASE_URL", "nonsense"),
    ("OUSEL_PORTAL_URL", "ftp://x"),
    ("OUSEL_DATABASE_URL", "mysql://x/y"),
    ("OUSEL_DATABASE_URL", "/"),
    ("OUSEL_DATABASE_URL", "sqlite:////.."),
    ("OUSEL_LOG_KEY_FILE", "."),
)


@pytest.mark.slow
@pytest.mark.one_engine
@pytest.mark.parametrize(("command", "says"), REFUSED, ids=repr)
def test_a_refusal_is_reported_in_one_line(
    operator: Operator, command: tuple[str, ...], says: str
) -> None:
    """What the rules refuse ends with exit 1 and the refusal's own sentence."""
    assert_fails(operator.run(*command), says)
    assert_fails(operator.run(*command, "--json"), says)


def test_an_invalid_amount_funds_nothing(operator: Operator) -> None:
    """The same rules as over HTTP: exact, positive, at most six decimals."""
    ada = operator.open_account()

    for amount in AMOUNTS:
        assert_fails(operator.run("account", "fund", f"@{ada}", "--", amount), "amount must")

    assert operator.run("account", "show", f"@{ada}", "--json").json["balance"] == 0


def test_a_note_and_a_key_of_funding_keep_the_rules_of_transfers(operator: Operator) -> None:
    """What no transfer may carry, no funding may."""
    ada = operator.open_account()
    wrong = {
        "--note=a\x01b": "note must not contain control characters",
        f"--note={'x' * 501}": "at most 500 characters",
        "--idempotency-key=": "1 to 255 visible ASCII",
        "--idempotency-key=a b": "1 to 255 visible ASCII",
        f"--idempotency-key={'k' * 256}": "1 to 255 visible ASCII",
        "--idempotency-key=é": "1 to 255 visible ASCII",
    }

    for option, says in wrong.items():
        assert_fails(operator.run("account", "fund", f"@{ada}", "5", option), says)

    assert operator.run("account", "show", f"@{ada}", "--json").json["balance"] == 0


def test_a_name_that_is_taken_is_refused(operator: Operator) -> None:
    """The line names the username or the email that is in use."""
    ada = operator.open_account()

    by_name = operator.run(*CREATE, "--username", ada.upper())
    by_email = operator.run(
        *CREATE, "--username", unique_name(), "--email", f"{ada.upper()}@example.com"
    )

    assert_fails(by_name, f"@{ada} is in use")
    assert_fails(by_email, f"{ada}@example.com is in use")


@pytest.mark.parametrize(("command", "says"), MISUSED, ids=repr)
def test_a_wrong_command_line_is_reported_in_one_line(
    tmp_path: Path, command: tuple[str, ...], says: str
) -> None:
    """A misspelt command or option ends with exit 2, and says where help is."""
    outcome = ousel(*command, database=str(tmp_path / "none.db"))

    assert_fails(outcome, says, exit_code=2)
    assert "--help')" in outcome.errors


def test_without_a_command_the_help_is_shown(tmp_path: Path) -> None:
    """Nothing was asked for, so all that can be asked for is listed."""
    for arguments in ((), ("account",), ("key",), ("app",)):
        outcome = ousel(*arguments, database=str(tmp_path / "none.db"))

        assert outcome.exit_code == 2
        assert outcome.errors == ""
        assert "--help" in outcome.output


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, name: str, value: str) -> None:
    """The line names the variable, whichever command reads it."""
    url = value if name == "OUSEL_DATABASE_URL" else str(tmp_path / "none.db")

    for command in (("account", "list"), ("serve",), ("migrate",)):
        assert_fails(ousel(*command, database=url, environment={name: value}), name)


def test_arguments_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are refused by every command before they reach the ledger."""
    url = str(tmp_path / "ousel.db")
    for command in (("key", "list", "\udcff"), ("account", "fund", "@ada", "\udcff")):
        assert_fails(ousel(*command, database=url), "UTF-8")
    assert not Path(url).exists()


COMMANDS = (
    *(("migrate",), ("verify",), ("account", "list"), ("account", "fund", "@ada", "5"), CREATE),
    ("serve",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_an_unreachable_database_is_reported_in_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """A folder that is not there, a file that is no database, a server that does not answer.

    The line names the file, or the server's address.
    """
    missing, other = tmp_path / "no" / "ousel.db", tmp_path / "other.db"
    other.write_bytes(b"this is no database" * 1000)
    port = free_port()
    nowhere = f"postgresql://postgres@127.0.0.1:{port}/ousel"

    assert_fails(ousel(*command, database=str(missing)), f"SQLite file {missing}")
    assert_fails(ousel(*command, database=str(other)), f"SQLite file {other}")
    assert_fails(ousel(*command, database=nowhere), f"Connect call failed ('127.0.0.1', {port})")


@pytest.mark.slow
def test_the_process_ends_with_the_exit_code(tmp_path: Path) -> None:
    """Installed as a program, it exits and writes just as it does inside these tests."""
    failed = ousel_process("account", "show", "@ada", database=str(tmp_path / "ousel.db"))

    assert_fails(failed, "create this one with 'ousel migrate")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("verify",), ("verify", "--json"), ("verify", "--help")])
def test_an_output_that_cannot_be_written_is_reported_in_one_line(
    engines: Engines, command: tuple[str, ...], tmp_path: Path
) -> None:
    """As on a full disk: whoever reads the file later is not the only one to notice."""
    url = engines.fresh_url("sqlite", tmp_path)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [str(OUSEL), *command],
            env=os.environ | {"OUSEL_DATABASE_URL": url},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PROCESS_SECONDS_MAX,
            check=False,
        )

    assert (done.returncode, done.stderr) == (1, b"ousel: No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("verify",), ("verify", "--json"), ("verify", "--help")])
def test_a_closed_output_is_not_a_failure(
    engines: Engines, command: tuple[str, ...], tmp_path: Path
) -> None:
    """Whoever closed the output does not want to read it."""
    done = subprocess.run(
        ["sh", "-c", '"$0" "$@" >&-', str(OUSEL), *command],
        env=os.environ | {"OUSEL_DATABASE_URL": engines.fresh_url("sqlite", tmp_path)},
        stderr=subprocess.PIPE,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
def test_letters_that_the_terminal_lacks_are_escaped(
    engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal without them is no reason to fail when the work has been done."""
    url = engines.fresh_url("sqlite", tmp_path)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    created = ousel_process(*CREATE, "--username=zofie", "--name=Žofie", database=url)

    assert created.rows["display_name"] == r"\u017dofie"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_old_schema_is_refused_and_the_cure_named(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """A command on a database without today's schema says to migrate that very database."""
    url = engines.empty_url(engine, tmp_path)
    if engine == "sqlite":
        Path(url).touch()

    for command in (("account", "list"), ("verify",), ("key", "list", "app_x")):
        refused = ousel(*command, f"--database={url}", database=str(tmp_path / "other.db"))
        assert_fails(refused, "run 'ousel migrate' with the same --database")


@pytest.mark.parametrize(
    "command",
    [("serve",), ("migrate",), ("verify",), ("restore", "books.backup")],
    ids=lambda command: command[0],
)
def test_a_log_without_its_file_is_left_alone(command: tuple[str, ...], tmp_path: Path) -> None:
    """Someone moved the file and not its log, where the last transfers are."""
    log = tmp_path / "ousel.db-wal"
    log.write_bytes(b"the last transfers")

    ended = ousel(*command, database=str(tmp_path / "ousel.db"))

    assert_fails(ended, "its log ousel.db-wal exists: put the file back")
    assert list(tmp_path.iterdir()) == [log]
    assert log.read_bytes() == b"the last transfers"


def test_a_mistyped_path_creates_no_database(tmp_path: Path) -> None:
    """The line says where it was looked for and how to name another database or create this one."""
    slip = str(tmp_path / "slip.db")

    for command in (CREATE, ("account", "list"), ("verify",), ("export", "-")):
        refused = ousel(*command, database=slip)
        assert_fails(refused, f"no SQLite file {slip}: name another database with --database or")
        assert_fails(refused, f"'ousel migrate --database {slip}'")
    assert_fails(ousel("restore", str(tmp_path / "none"), database=slip), "there is no backup")

    assert list(tmp_path.iterdir()) == []


ON_ANY_DATABASE = (("migrate",), ("serve",), ("account", "list"), ("verify",), ("export", "-"))


@pytest.mark.parametrize(
    ("engine", "version"),
    [("sqlite", None), *((engine, version) for engine in ENGINES for version in ("ae10", "9999"))],
)
def test_a_database_of_another_program_is_left_alone(
    engines: Engines, engine: Engine, version: str | None, tmp_path: Path
) -> None:
    """Whatever it is migrated by, it is neither served nor filled, and keeps what it holds."""
    url, copy = engines.empty_url(engine, tmp_path), tmp_path / "books.backup"
    asyncio.run(_fill_as_another_program(url, version))
    before = sqlite_path(url).read_bytes() if engine == "sqlite" else b""
    copy_from = engines.fresh_url("sqlite", tmp_path)
    assert ousel("backup", str(copy), database=copy_from).exit_code == 0

    for command in (*ON_ANY_DATABASE, ("restore", str(copy))):
        assert_fails(ousel(*command, database=url), "another program's tables")
    for command in (("demo",), ("bench",)):
        assert_fails(ousel(*command, "--database", url, database=url), "another program's tables")

    assert asyncio.run(_kept_by_another_program(url)) == [(42,)]
    if engine == "sqlite":
        assert sqlite_path(url).read_bytes() == before


@pytest.mark.slow
def test_other_tables_in_a_postgresql_database_do_no_harm(engines: Engines, tmp_path: Path) -> None:
    """Extensions and other tools have tables there too: Ousel keeps its own beside them."""
    url = engines.empty_url("postgresql", tmp_path)
    asyncio.run(_fill_as_another_program(url, version=None))

    assert ousel("migrate", database=url).exit_code == 0
    assert ousel("verify", database=url).exit_code == 0

    assert asyncio.run(_kept_by_another_program(url)) == [(42,)]


async def _fill_as_another_program(url: str, version: str | None) -> None:
    async with RawSql(url) as raw_sql:
        await raw_sql.run("CREATE TABLE precious (value BIGINT)")
        await raw_sql.run("INSERT INTO precious VALUES (42)")
        if version is not None:
            await raw_sql.run("CREATE TABLE alembic_version (version_num TEXT)")
            await raw_sql.run("INSERT INTO alembic_version VALUES (?)", version)


async def _kept_by_another_program(url: str) -> list[tuple[int, ...]]:
    async with RawSql(url) as raw_sql:
        return await raw_sql.run("SELECT value FROM precious")
