"""The rows of account holders: what the ledger does not need to know."""

from collections.abc import Collection
from typing import Final

from ousel.accounts.rules import NO_EMAIL, HolderEmail, LockedHolder
from ousel.database.port import Transaction
from ousel.database.statements import Statement

INSERT_HOLDER: Final = Statement(
    "add a holder",
    "INSERT INTO holders (account_id, email, password_hash, email_unproven_since)"
    " VALUES (:account_id, :email, :password_hash, :email_unproven_since)",
)
EMAIL_OF: Final = Statement(
    "the email of an account's holder",
    "SELECT email, email_unproven_since IS NULL FROM holders WHERE account_id = :account_id",
)
LOCK_HOLDER: Final = Statement(
    "lock the row of an account's holder",
    "SELECT email, email_unproven_since IS NULL, password_hash FROM holders"
    " WHERE account_id = :account_id FOR UPDATE",
)
SET_CONFIRMED_EMAIL: Final = Statement(
    "change the email of an account's holder to one that is confirmed",
    "UPDATE holders SET email = :email, email_unproven_since = NULL WHERE account_id = :account_id",
)
MONEY_NOTICES_OF: Final = Statement(
    "whether an account's holder wants notices about received money",
    "SELECT money_notices_off_since IS NULL FROM holders WHERE account_id = :account_id",
)
SET_MONEY_NOTICES: Final = Statement(
    "turn an account's notices about received money on or off",
    "UPDATE holders SET money_notices_off_since = :off_since WHERE account_id = :account_id",
)
MONEY_NOTICE_EMAILS: Final = Statement(
    "the confirmed emails of those holders who want notices about received money",
    "SELECT account_id, email FROM holders WHERE account_id = ANY(:account_ids)"
    " AND email_unproven_since IS NULL AND money_notices_off_since IS NULL",
)
PASSWORD_HASH_OF: Final = Statement(
    "the password hash of an account's holder",
    "SELECT password_hash FROM holders WHERE account_id = :account_id",
)
SET_PASSWORD_HASH: Final = Statement(
    "change the password of an account's holder",
    "UPDATE holders SET password_hash = :password_hash WHERE account_id = :account_id",
)
NAMES_AFTER: Final = Statement(
    "usernames, account numbers and confirmed emails of the accounts after an id, in order",
    "SELECT accounts.id, accounts.username, accounts.account_number,"
    " CASE WHEN holders.email_unproven_since IS NULL THEN holders.email END"
    " FROM accounts LEFT JOIN holders ON holders.account_id = accounts.id"
    " WHERE accounts.id > :after ORDER BY accounts.id LIMIT :limit",
)
IDENTIFIERS_AFTER: Final = Statement(
    "the identifiers after a given one, in order, with their accounts",
    "SELECT identifier, account_id FROM identifiers WHERE identifier > :after"
    " ORDER BY identifier LIMIT :limit",
)


async def add_holder(
    transaction: Transaction,
    account_id: str,
    email: str,
    password_hash: str | None,
    email_unproven_since: int | None,
) -> None:
    """Insert the holder of a new account."""
    await transaction.execute(
        INSERT_HOLDER,
        account_id=account_id,
        email=email,
        password_hash=password_hash,
        email_unproven_since=email_unproven_since,
    )


async def email_of(transaction: Transaction, account_id: str) -> HolderEmail:
    """Return the email of an account's holder; the system account has none."""
    rows = await transaction.fetch(EMAIL_OF, account_id=account_id)
    return HolderEmail(rows[0][0], bool(rows[0][1])) if rows else NO_EMAIL


async def lock_holder(transaction: Transaction, account_id: str) -> LockedHolder:
    """Lock the row of an account's holder until the transaction ends, and return what it says."""
    rows = await transaction.fetch(LOCK_HOLDER, account_id=account_id)
    if not rows:
        return LockedHolder(NO_EMAIL, None)
    address, is_confirmed, password_hash = rows[0]
    return LockedHolder(HolderEmail(address, bool(is_confirmed)), password_hash)


async def set_confirmed_email(transaction: Transaction, account_id: str, email: str) -> None:
    """Change the email of an account's holder to this one, which is confirmed."""
    await transaction.execute(SET_CONFIRMED_EMAIL, account_id=account_id, email=email)


async def wants_money_notices(transaction: Transaction, account_id: str) -> bool:
    """Return whether the account's holder wants notices about received money."""
    rows = await transaction.fetch(MONEY_NOTICES_OF, account_id=account_id)
    return bool(rows and rows[0][0])


async def set_money_notices(
    transaction: Transaction, account_id: str, off_since: int | None
) -> None:
    """Turn the account's notices about received money off, or on if `off_since` is None."""
    await transaction.execute(SET_MONEY_NOTICES, account_id=account_id, off_since=off_since)


async def money_notice_emails(
    transaction: Transaction, account_ids: Collection[str]
) -> dict[str, str]:
    """Return the confirmed emails, by account, of holders who want notices about received money."""
    rows = await transaction.fetch(MONEY_NOTICE_EMAILS, account_ids=list(account_ids))
    return {row[0]: row[1] for row in rows}


async def password_hash_of(transaction: Transaction, account_id: str) -> str | None:
    """Return the stored password hash of an account's holder, or None if there is none."""
    rows = await transaction.fetch(PASSWORD_HASH_OF, account_id=account_id)
    return rows[0][0] if rows else None


async def set_password_hash(transaction: Transaction, account_id: str, password_hash: str) -> None:
    """Change the password of an account's holder."""
    await transaction.execute(SET_PASSWORD_HASH, account_id=account_id, password_hash=password_hash)


async def names_after(
    transaction: Transaction, after: str, limit: int
) -> list[tuple[str, str, str, str | None]]:
    """Return ids, usernames, account numbers and confirmed emails of the next accounts."""
    rows = await transaction.fetch(NAMES_AFTER, after=after, limit=limit)
    return [(row[0], row[1], row[2], row[3]) for row in rows]


async def identifiers_after(
    transaction: Transaction, after: str, limit: int
) -> list[tuple[str, str]]:
    """Return the next identifiers, each with the id of the account that it points to."""
    rows = await transaction.fetch(IDENTIFIERS_AFTER, after=after, limit=limit)
    return [(row[0], row[1]) for row in rows]
