"""The rows of account holders: what the ledger does not need to know."""

from typing import Final

from ousel.database.port import Transaction
from ousel.database.statements import Statement

INSERT_HOLDER: Final = Statement(
    "add a holder",
    "INSERT INTO holders (account_id, email, password_hash)"
    " VALUES (:account_id, :email, :password_hash)",
)
EMAIL_OF: Final = Statement(
    "the email of an account's holder", "SELECT email FROM holders WHERE account_id = :account_id"
)

PASSWORD_HASH_OF: Final = Statement(
    "the password hash of an account's holder",
    "SELECT password_hash FROM holders WHERE account_id = :account_id",
)
LOCK_PASSWORD_HASH: Final = Statement(
    "lock the password hash of an account's holder",
    "SELECT password_hash FROM holders WHERE account_id = :account_id FOR UPDATE",
)
SET_PASSWORD_HASH: Final = Statement(
    "change the password of an account's holder",
    "UPDATE holders SET password_hash = :password_hash WHERE account_id = :account_id",
)
NAMES_AFTER: Final = Statement(
    "usernames, account numbers and emails of the accounts after an id, in order",
    "SELECT accounts.id, accounts.username, accounts.account_number, holders.email"
    " FROM accounts LEFT JOIN holders ON holders.account_id = accounts.id"
    " WHERE accounts.id > :after ORDER BY accounts.id LIMIT :limit",
)
IDENTIFIERS_AFTER: Final = Statement(
    "the identifiers after a given one, in order, with their accounts",
    "SELECT identifier, account_id FROM identifiers WHERE identifier > :after"
    " ORDER BY identifier LIMIT :limit",
)


async def add_holder(
    transaction: Transaction, account_id: str, email: str, password_hash: str | None
) -> None:
    """Insert the holder of a new account."""
    await transaction.execute(
        INSERT_HOLDER, account_id=account_id, email=email, password_hash=password_hash
    )


async def email_of(transaction: Transaction, account_id: str) -> str:
    """Return the email of an account's holder; the system account has none."""
    rows = await transaction.fetch(EMAIL_OF, account_id=account_id)
    return str(rows[0][0]) if rows else ""


async def password_hash_of(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash of an account's holder, or None if there is none."""
    rows = await transaction.fetch(PASSWORD_HASH_OF, account_id=account_id)
    return rows[0][0] if rows else None


async def lock_password_hash(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash, and lock it until the transaction ends."""
    rows = await transaction.fetch(LOCK_PASSWORD_HASH, account_id=account_id)
    return rows[0][0] if rows else None


async def set_password_hash(transaction: Transaction, account_id: str, password_hash: str) -> None:
    """Change the password of an account's holder."""
    await transaction.execute(SET_PASSWORD_HASH, account_id=account_id, password_hash=password_hash)


async def names_after(
    transaction: Transaction, after: str, limit: int
) -> list[tuple[str, str, str, str | None]]:
    """Return ids, usernames, account numbers and emails of the next accounts."""
    rows = await transaction.fetch(NAMES_AFTER, after=after, limit=limit)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


async def identifiers_after(
    transaction: Transaction, after: str, limit: int
) -> list[tuple[str, str]]:
    """Return the next identifiers, each with the id of the account that it points to."""
    rows = await transaction.fetch(IDENTIFIERS_AFTER, after=after, limit=limit)
    return [(row[0], row[1]) for row in rows]
