"""The rows of the outbox."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest
from ousel.kernel.clock import MICROS_PER_DAY
from ousel.mail.rules import SENDING_DAYS_MAX, Mail, OutboxFigures

OUTBOX: Final = Table(
    "outbox",
    key=("account_id text", "id text"),
    columns=(
        "recipient text",
        "subject text",
        "text_body text",
        "html_body text",
        "created_at bigint",
        "attempts bigint",
        "due_at bigint",
        "failed_at bigint",
    ),
)

_COLUMNS: Final = ", ".join(OUTBOX.names)
_THIS_CLAIM: Final = "account_id = :account_id AND id = :id AND due_at = :claimed_until"
_WAITS: Final = "due_at IS NOT NULL AND created_at > :after"

IS_ANY_DUE: Final = Statement(
    "whether a message is due", "SELECT 1 FROM outbox WHERE due_at <= :now LIMIT 1"
)
CLAIM_DUE: Final = Statement(
    "claim the message that has been due longest, unless another process is claiming it",
    "UPDATE outbox SET due_at = :claimed_until, attempts = attempts + 1"
    " WHERE (account_id, id) IN ("
    " WITH due AS MATERIALIZED (SELECT account_id, id FROM outbox"
    " WHERE due_at <= :now ORDER BY due_at, account_id, id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    f" SELECT account_id, id FROM due) RETURNING {_COLUMNS}",
)
DELETE_SENT: Final = Statement(
    "delete a message that was sent", f"DELETE FROM outbox WHERE {_THIS_CLAIM}"
)
POSTPONE: Final = Statement(
    "postpone a message that was not sent, or give it up",
    f"UPDATE outbox SET due_at = :due_at, failed_at = :failed_at WHERE {_THIS_CLAIM}",
)
FIGURES: Final = Statement(
    "how many messages wait, since when, and how many were given up",
    f"SELECT COUNT(CASE WHEN {_WAITS} THEN 1 END), MIN(CASE WHEN {_WAITS} THEN created_at END),"
    " COUNT(failed_at) FROM outbox",
)
NEWEST: Final = Statement(
    "the messages before an id, newest first",
    f"SELECT {_COLUMNS} FROM outbox WHERE id < :before ORDER BY id DESC LIMIT :limit",
)
NEWEST_TO: Final = Statement(
    "the messages to an address before an id, newest first",
    f"SELECT {_COLUMNS} FROM outbox WHERE recipient = :recipient AND id < :before"
    " ORDER BY id DESC LIMIT :limit",
)
DELETE_OLD: Final = deletion_of_oldest(
    "delete some old messages",
    OUTBOX,
    by="created_at",
)


async def add(transaction: Transaction, mail: Mail) -> None:
    """Insert a message."""
    await transaction.insert(OUTBOX, [msgspec.structs.astuple(mail)])


async def is_any_due(transaction: Transaction, now: int) -> bool:
    """Return whether a message is to be sent now."""
    return bool(await transaction.fetch(IS_ANY_DUE, now=now))


async def claim(transaction: Transaction, now: int, claimed_until: int) -> Mail | None:
    """Claim one message that is due.

    The claim lasts until `claimed_until`. This time becomes the message's `due_at`, and identifies
    the claim.
    """
    rows = await transaction.fetch(CLAIM_DUE, now=now, claimed_until=claimed_until)
    return Mail(*rows[0]) if rows else None


async def delete_sent(transaction: Transaction, claimed: Mail) -> None:
    """Delete a claimed message, which was sent."""
    await transaction.execute(
        DELETE_SENT, account_id=claimed.account_id, id=claimed.id, claimed_until=claimed.due_at
    )


async def postpone(
    transaction: Transaction, claimed: Mail, due_at: int | None, failed_at: int | None
) -> None:
    """Try a claimed message again at `due_at`, or record when it was given up."""
    await transaction.execute(
        POSTPONE,
        account_id=claimed.account_id,
        id=claimed.id,
        claimed_until=claimed.due_at,
        due_at=due_at,
        failed_at=failed_at,
    )


async def figures(transaction: Transaction, now: int) -> OutboxFigures:
    """Return how many messages wait or were given up.

    Messages that are too old to be sent do not wait, even if no sender has given them up.
    """
    rows = await transaction.fetch(FIGURES, after=now - SENDING_DAYS_MAX * MICROS_PER_DAY)
    return OutboxFigures(*rows[0])


async def newest(
    transaction: Transaction, recipient: str | None, before: str, limit: int
) -> list[Mail]:
    """Return the messages before this id, to everyone or to one address, newest first."""
    if recipient is None:
        rows = await transaction.fetch(NEWEST, before=before, limit=limit)
    else:
        rows = await transaction.fetch(NEWEST_TO, recipient=recipient, before=before, limit=limit)
    return [Mail(*row) for row in rows]


async def delete_old(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` messages from before this moment."""
    return await transaction.execute(DELETE_OLD, before=before, limit=limit)
