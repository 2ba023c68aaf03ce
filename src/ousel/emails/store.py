"""The rows of pending confirmations of emails, in the table `email_proofs`."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest
from ousel.emails.rules import PendingConfirmation

EMAIL_PROOFS: Final = Table(
    "email_proofs",
    key=("account_id text",),
    columns=(
        "email text",
        "link_hash text",
        "code_hash text",
        "wrong_codes bigint",
        "created_at bigint",
        "expires_at bigint",
    ),
)

_COLUMNS: Final = ", ".join(EMAIL_PROOFS.names)

CONFIRMATION_OF: Final = Statement(
    "the email that an account has to confirm",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE account_id = :account_id",
)
LOCK_CONFIRMATION: Final = Statement(
    "lock the email that an account has to confirm",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE account_id = :account_id FOR UPDATE",
)
CONFIRMATION_BY_LINK: Final = Statement(
    "the email that a link confirms",
    f"SELECT {_COLUMNS} FROM email_proofs WHERE link_hash = :link_hash",
)
COUNT_WRONG_CODE: Final = Statement(
    "count a wrong code",
    "UPDATE email_proofs SET wrong_codes = wrong_codes + 1 WHERE account_id = :account_id",
)
DELETE_CONFIRMATION: Final = Statement(
    "delete the pending confirmation of an account",
    "DELETE FROM email_proofs WHERE account_id = :account_id",
)
DELETE_EXPIRED: Final = deletion_of_oldest(
    "delete some pending confirmations that have expired", EMAIL_PROOFS, by="expires_at"
)


async def replace_confirmation(transaction: Transaction, pending: PendingConfirmation) -> None:
    """Insert a pending confirmation, which replaces the account's earlier one."""
    await delete_confirmation(transaction, pending.account_id)
    await transaction.insert(EMAIL_PROOFS, [msgspec.structs.astuple(pending)])


async def confirmation_of(transaction: Transaction, account_id: str) -> PendingConfirmation | None:
    """Return the account's pending confirmation, whether or not it has expired."""
    rows = await transaction.fetch(CONFIRMATION_OF, account_id=account_id)
    return PendingConfirmation(*rows[0]) if rows else None


async def lock_confirmation(
    transaction: Transaction, account_id: str
) -> PendingConfirmation | None:
    """Return the account's pending confirmation, and lock it until the transaction ends."""
    rows = await transaction.fetch(LOCK_CONFIRMATION, account_id=account_id)
    return PendingConfirmation(*rows[0]) if rows else None


async def confirmation_by_link(
    transaction: Transaction, link_hash: str
) -> PendingConfirmation | None:
    """Return the pending confirmation of this link, whether or not it has expired."""
    rows = await transaction.fetch(CONFIRMATION_BY_LINK, link_hash=link_hash)
    return PendingConfirmation(*rows[0]) if rows else None


async def count_wrong_code(transaction: Transaction, account_id: str) -> None:
    """Count a wrong code of the account's pending confirmation."""
    await transaction.execute(COUNT_WRONG_CODE, account_id=account_id)


async def delete_confirmation(transaction: Transaction, account_id: str) -> None:
    """Delete the account's pending confirmation."""
    await transaction.execute(DELETE_CONFIRMATION, account_id=account_id)


async def delete_expired(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` pending confirmations that expired before this moment."""
    return await transaction.execute(DELETE_EXPIRED, before=before, limit=limit)
