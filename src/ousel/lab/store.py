"""The rows of rehearsals and of the calls that they record."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.lab.rules import CALLS_MAX, REHEARSALS_MAX, RecordedCall, Rehearsal

REHEARSALS: Final = Table(
    "rehearsals",
    key=("account_id text", "id text"),
    columns=(
        "app_id text",
        "name text",
        "started_at bigint",
        "ends_at bigint",
        "calls bigint",
        "code_hash text",
    ),
)
CALLS: Final = Table(
    "rehearsal_calls",
    key=("account_id text", "rehearsal_id text", "sequence bigint"),
    columns=("call text",),
)

_COLUMNS: Final = ", ".join(REHEARSALS.names)
_THIS: Final = "account_id = :account_id AND id = :id"

RUNNING: Final = Statement(
    "the running rehearsals of these apps",
    f"SELECT {_COLUMNS} FROM rehearsals WHERE app_id = ANY(:app_ids) AND ends_at > :now"
    f" AND calls < {CALLS_MAX}",
)
BY_ID: Final = Statement(
    "a rehearsal by its id, whoever owns it", f"SELECT {_COLUMNS} FROM rehearsals WHERE id = :id"
)
BY_CODE: Final = Statement(
    "the running rehearsal whose forged return has this code",
    f"SELECT {_COLUMNS} FROM rehearsals WHERE code_hash = :code_hash AND ends_at > :now",
)
OF_APP: Final = Statement(
    "the rehearsals of an app, newest first",
    f"SELECT {_COLUMNS} FROM rehearsals WHERE account_id = :account_id AND app_id = :app_id"
    f" ORDER BY id DESC LIMIT {REHEARSALS_MAX}",
)
FINISH: Final = Statement(
    "end the running rehearsals of an app",
    "UPDATE rehearsals SET ends_at = :now"
    " WHERE account_id = :account_id AND app_id = :app_id AND ends_at > :now",
)
SET_CODE: Final = Statement(
    "set the code of a forged return", f"UPDATE rehearsals SET code_hash = :code_hash WHERE {_THIS}"
)
COUNT_CALL: Final = Statement(
    "count another call of a rehearsal, unless the rehearsal has ended; the last call ends it",
    "UPDATE rehearsals SET calls = calls + 1,"
    f" ends_at = CASE WHEN calls + 1 < {CALLS_MAX} THEN ends_at ELSE :now END"
    f" WHERE {_THIS} AND ends_at > :now AND calls < {CALLS_MAX} RETURNING calls",
)
CALLS_OF: Final = Statement(
    "the calls of a rehearsal, in their order",
    "SELECT call FROM rehearsal_calls"
    " WHERE account_id = :account_id AND rehearsal_id = :id ORDER BY sequence",
)
CHANGE_CALL: Final = Statement(
    "record how a call was answered",
    "UPDATE rehearsal_calls SET call = :call"
    " WHERE account_id = :account_id AND rehearsal_id = :id AND sequence = :sequence",
)
_OLD: Final = (
    "IN (SELECT id FROM (SELECT id, ends_at FROM rehearsals WHERE account_id = :account_id"
    f" ORDER BY id DESC LIMIT 1000 OFFSET {REHEARSALS_MAX}) AS older WHERE ends_at <= :now)"
)
DELETE_OLD: Final = (
    Statement(
        "delete the calls of all but an account's newest and running rehearsals",
        f"DELETE FROM rehearsal_calls WHERE account_id = :account_id AND rehearsal_id {_OLD}",
    ),
    Statement(
        "delete all but an account's newest and running rehearsals",
        f"DELETE FROM rehearsals WHERE account_id = :account_id AND id {_OLD}",
    ),
)

_decoder: Final = msgspec.json.Decoder(RecordedCall)


async def add(transaction: Transaction, rehearsal: Rehearsal) -> None:
    """Insert a rehearsal, and delete the account's oldest ones, unless they still run."""
    await transaction.insert(REHEARSALS, [msgspec.structs.astuple(rehearsal)])
    for statement in DELETE_OLD:
        await transaction.execute(
            statement, account_id=rehearsal.account_id, now=rehearsal.started_at
        )


async def running_rehearsals(
    transaction: Transaction, app_ids: list[str], now: int
) -> dict[str, Rehearsal | None]:
    """Return the running rehearsal of each of these apps, or None."""
    found: dict[str, Rehearsal | None] = dict.fromkeys(app_ids)
    for row in await transaction.fetch(RUNNING, app_ids=app_ids, now=now):
        rehearsal = Rehearsal(*row)
        found[rehearsal.app_id] = rehearsal
    return found


async def by_id(transaction: Transaction, rehearsal_id: str) -> Rehearsal | None:
    """Return the rehearsal with this id, whoever owns it."""
    rows = await transaction.fetch(BY_ID, id=rehearsal_id)
    return Rehearsal(*rows[0]) if rows else None


async def by_code(transaction: Transaction, code_hash: str, now: int) -> Rehearsal | None:
    """Return the running rehearsal whose forged return has this code."""
    rows = await transaction.fetch(BY_CODE, code_hash=code_hash, now=now)
    return Rehearsal(*rows[0]) if rows else None


async def of_app(transaction: Transaction, account_id: str, app_id: str) -> list[Rehearsal]:
    """Return the rehearsals of an app, newest first."""
    rows = await transaction.fetch(OF_APP, account_id=account_id, app_id=app_id)
    return [Rehearsal(*row) for row in rows]


async def finish(transaction: Transaction, account_id: str, app_id: str, now: int) -> None:
    """End the running rehearsals of an app."""
    await transaction.execute(FINISH, account_id=account_id, app_id=app_id, now=now)


async def set_code(transaction: Transaction, rehearsal: Rehearsal, code_hash: str) -> None:
    """Set the code of the forged return."""
    await transaction.execute(
        SET_CODE, account_id=rehearsal.account_id, id=rehearsal.id, code_hash=code_hash
    )


async def count_call(transaction: Transaction, rehearsal: Rehearsal, now: int) -> int | None:
    """Count one more call, and return its number, or None if the rehearsal has ended."""
    rows = await transaction.fetch(
        COUNT_CALL, account_id=rehearsal.account_id, id=rehearsal.id, now=now
    )
    return rows[0][0] if rows else None


async def calls_of(transaction: Transaction, rehearsal: Rehearsal) -> list[RecordedCall]:
    """Return the calls of a rehearsal, in their order."""
    rows = await transaction.fetch(CALLS_OF, account_id=rehearsal.account_id, id=rehearsal.id)
    return [_decoder.decode(row[0]) for row in rows]


async def add_call(transaction: Transaction, rehearsal: Rehearsal, call: RecordedCall) -> None:
    """Insert a call that has arrived."""
    await transaction.insert(
        CALLS, [(rehearsal.account_id, rehearsal.id, call.sequence, _text(call))]
    )


async def change_call(transaction: Transaction, rehearsal: Rehearsal, call: RecordedCall) -> None:
    """Record how a call was answered."""
    await transaction.execute(
        CHANGE_CALL,
        account_id=rehearsal.account_id,
        id=rehearsal.id,
        sequence=call.sequence,
        call=_text(call),
    )


def _text(call: RecordedCall) -> str:
    return msgspec.json.encode(call).decode()
