"""Citus, a PostgreSQL extension: how each table is distributed over the servers of a cluster.

docs/operating/citus.md explains the choice for each table.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import asyncpg

from ousel.database.citus_functions import FUNCTIONS
from ousel.database.port import Transaction
from ousel.database.retries import RowsLocked, TransientFailure
from ousel.database.statements import Statement
from ousel.kernel.errors import DatabaseUnavailable

# The column by whose value a row is assigned to a shard. The shards of tables that are distributed
# by an account's id are placed together: all their rows of one account are on one server.
DISTRIBUTION_COLUMNS: Final = {
    "accounts": "id",
    "entries": "account_id",
    "holders": "account_id",
    "second_factors": "account_id",
    "recovery_codes": "account_id",
    "audit_events": "account_id",
    "api_errors": "account_id",
    "charges": "account_id",
    "known_browsers": "account_id",
    "email_proofs": "account_id",
    "reset_links": "account_id",
    "passkeys": "account_id",
    "identifiers": "identifier",
    "sessions": "hash",
    "authorization_codes": "handle",
    "user_tokens": "handle",
    "sign_in_failures": "subject",
    "passkey_challenges": "hash",
    "unsealed_batches": "id",
}
# Every server has all rows of these tables: they are small, rarely written and often read.
REFERENCE_TABLES: Final = (
    "alembic_version",
    "deployment",
    "apps",
    "partner_keys",
    "app_redirect_uris",
    "app_origins",
)
# These tables have one shard each. The rows of the sealed log and of the mail queue are in one
# overall order, and rehearsals exist only in a sandbox.
SINGLE_SHARD_TABLES: Final = (
    "sealed_log",
    "sealed_batches",
    "sealed_tiles",
    "sealed_cosignatures",
    "outbox",
    "rehearsals",
    "rehearsal_calls",
)

# Citus plans a statement for the shards that its parameters name, so a plan cannot be kept.
SETTINGS: Final = {
    "plan_cache_mode": "auto",
    # Each shard has one copy, so no two copies can apply writes in different orders. Row locks
    # are enough, and batches need not wait for each other's shards.
    "citus.all_modifications_commutative": "on",
    "citus.propagate_set_commands": "local",
    # The entries of two accounts are read from their shards first, and then joined without an
    # index. Without a hash join, each entry of one account would be compared with each of the
    # other, and the time would grow with the square of their number.
    "enable_hashjoin": "on",
}
# A transaction waits for a row on the server that stores the row. That server has its own settings,
# but Citus passes SET LOCAL on to it. It is inside a DO block, because Citus would otherwise pass
# on the whole message, with all statements in it.
LOCAL_SETTINGS: Final = "DO $$BEGIN SET LOCAL lock_timeout = '1500ms'; END$$"

# What Citus may report if a server fails, besides a broken connection and a shutdown.
_SERVER_FAILURES: Final = (
    asyncpg.InternalServerError,
    asyncpg.InvalidTransactionStateError,  # a connection of the transaction cannot be used
    asyncpg.ObjectNotInPrerequisiteStateError,  # Citus also raises it if a server is not ready
    asyncpg.UnknownPostgresError,  # Citus' own code: a server has lost an intermediate result
)

_IS_CITUS: Final = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_DISTRIBUTED: Final = (
    "SELECT relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid"
    " WHERE relnamespace = current_schema()::regnamespace"
)
_DISTRIBUTED_AND_FUNCTIONS: Final = (
    f"{_DISTRIBUTED} UNION ALL SELECT proname FROM pg_proc"
    " WHERE pronamespace = current_schema()::regnamespace"
)
_LAST_FUNCTION: Final = "ousel_lock_charges"  # what `distribute` creates last

_IS_SETTLED: Final = """
    SELECT bool_and(success AND result = '0') FROM run_command_on_all_nodes(
        'SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()'
    )
"""
# Without an effect, but each server commits it. A server that refuses connections is dead, so no
# commit hangs in it.
PROBE: Final = """
    SELECT bool_and(success) FROM run_command_on_all_nodes(
        $$SELECT pg_logical_emit_message(true, 'ousel', '')$$
    )
"""
_TAKE_SNAPSHOTS: Final = "SELECT id FROM accounts WHERE id > '~' LIMIT 1"  # asks all shards


async def is_distributed(connection: "asyncpg.Connection[Any]") -> bool:
    """Return whether Citus distributes the tables of this database."""
    if not await connection.fetchval(_IS_CITUS):
        return False
    return "accounts" in await _distributed_tables(connection)


async def is_complete(transaction: Transaction) -> bool:
    """Return whether `distribute` has completed its work: it can be interrupted at each table."""
    names = Statement("distributed tables, and functions", _DISTRIBUTED_AND_FUNCTIONS)
    found = {name for (name,) in await transaction.fetch(names)}
    return found >= {
        *REFERENCE_TABLES,
        *DISTRIBUTION_COLUMNS,
        *SINGLE_SHARD_TABLES,
        _LAST_FUNCTION,
    }


@contextmanager
def translate_server_failures() -> Iterator[None]:
    """Raise ConnectionResetError if another server of the cluster fails during the block.

    Citus does not report all of these failures as a broken connection. But each of them ends the
    transaction, as a broken connection does.
    """
    try:
        yield
    except asyncpg.LockNotAvailableError:  # a subclass of these errors; no server failed
        raise
    except _SERVER_FAILURES as error:
        raise ConnectionResetError(f"A server of the cluster has failed: {error}.") from error


@asynccontextmanager
async def consistent_transaction(
    connection: "asyncpg.Connection[Any]",
    connect: "Callable[[], Awaitable[asyncpg.Connection[Any]]]",
) -> AsyncIterator[None]:
    """Run a transaction that sees the same moment on all servers.

    Each server takes its own snapshot, and the servers commit the same transaction at different
    moments. So the snapshots are taken while another connection keeps all postings waiting. Each
    server is read through one connection, so it has one snapshot.
    """
    locking = await connect()
    try:
        with translate_server_failures():
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                async with locking.transaction():
                    await locking.execute(LOCAL_SETTINGS)
                    await keep_postings_waiting(locking)
                    await connection.execute("SET LOCAL citus.max_adaptive_executor_pool_size = 1")
                    await connection.execute(_TAKE_SNAPSHOTS)
                yield
    finally:
        locking.terminate()


async def keep_postings_waiting(connection: "asyncpg.Connection[Any]") -> None:
    """Wait until every posting is committed on all servers or on none, and let no other begin.

    Raise TransientFailure if a crash has interrupted a commit and Citus has not finished it yet,
    which takes seconds.
    """
    await connection.execute("LOCK TABLE accounts IN SHARE MODE")
    if not await connection.fetchval(_IS_SETTLED):
        raise TransientFailure(RowsLocked())


async def distribute(connection: "asyncpg.Connection[Any]") -> list[str]:
    """Distribute each table that is not distributed yet, with its rows; return their names."""
    if not await connection.fetchval(_IS_CITUS):
        raise DatabaseUnavailable(
            "The database does not have the Citus extension, so its tables stay on one server."
            " Nothing was distributed."
        )
    before = await _distributed_tables(connection)
    statements = {  # first accounts, by which `is_distributed` recognizes what was only begun
        **{name: _distribution(name, column) for name, column in DISTRIBUTION_COLUMNS.items()},
        **{name: f"create_reference_table('{name}')" for name in REFERENCE_TABLES},
        **{name: f"create_distributed_table('{name}', NULL)" for name in SINGLE_SHARD_TABLES},
    }
    for name, call in statements.items():
        if name not in before:
            await connection.execute(f"SELECT {call}")
    for function in FUNCTIONS:
        await connection.execute(function)
    return [name for name in statements if name not in before]


def _distribution(table: str, column: str) -> str:
    is_by_account = column == "account_id" or table == "accounts"
    together = "accounts" if is_by_account and table != "accounts" else "none"
    return f"create_distributed_table('{table}', '{column}', colocate_with := '{together}')"


async def _distributed_tables(connection: "asyncpg.Connection[Any]") -> set[str]:
    return {str(row[0]) for row in await connection.fetch(_DISTRIBUTED)}
