"""The rows of second factors and recovery codes."""

from collections.abc import Collection
from typing import Final

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.people.rules import AuthenticatorApp

RECOVERY_CODES: Final = Table(
    "recovery_codes", key=("account_id text", "hash text"), columns=("used_at bigint",)
)

AUTHENTICATOR_APP_OF: Final = Statement(
    "the authenticator app of an account",
    "SELECT account_id, secret, confirmed_at, last_step, proposed_by FROM second_factors"
    " WHERE account_id = :account_id",
)
PROPOSE_AUTHENTICATOR_APP: Final = Statement(
    "propose an authenticator app, or find the one that is confirmed or proposed by the session",
    "INSERT INTO second_factors (account_id, secret, confirmed_at, last_step, proposed_by)"
    " VALUES (:account_id, :secret, NULL, 0, :session)"
    " ON CONFLICT (account_id) DO UPDATE SET proposed_by = :session,"
    " secret = CASE WHEN second_factors.confirmed_at IS NULL"
    " AND COALESCE(second_factors.proposed_by, '') <> :session"
    " THEN :secret ELSE second_factors.secret END RETURNING secret",
)
SECRETS_OF_OTHER_KEYS: Final = Statement(
    "some secrets of second factors that a given key has not encrypted",
    "SELECT account_id, secret FROM second_factors"
    " WHERE account_id > :after AND secret NOT LIKE :pattern ORDER BY account_id LIMIT :limit",
)
REPLACE_SECRET: Final = Statement(
    "store the secret of a second factor, encrypted with another key",
    "UPDATE second_factors SET secret = :renewed"
    " WHERE account_id = :account_id AND secret = :stored",
)
DELETE_PROPOSED_AUTHENTICATOR_APP: Final = Statement(
    "delete an authenticator app that was not confirmed",
    "DELETE FROM second_factors WHERE account_id = :account_id AND confirmed_at IS NULL",
)
USE_STEP: Final = Statement(
    "use a time step of a second factor, once",
    "UPDATE second_factors SET last_step = :step, confirmed_at = COALESCE(confirmed_at, :now)"
    " WHERE account_id = :account_id AND last_step < :step",
)
DELETE_AUTHENTICATOR_APP: Final = Statement(
    "remove an authenticator app", "DELETE FROM second_factors WHERE account_id = :account_id"
)
DELETE_RECOVERY_CODES: Final = Statement(
    "remove an account's recovery codes",
    "DELETE FROM recovery_codes WHERE account_id = :account_id",
)
USE_RECOVERY_CODE: Final = Statement(
    "use a recovery code, once",
    "UPDATE recovery_codes SET used_at = :now"
    " WHERE account_id = :account_id AND hash = :hash AND used_at IS NULL",
)
COUNT_UNUSED_RECOVERY_CODES: Final = Statement(
    "how many recovery codes are left",
    "SELECT COUNT(*) FROM recovery_codes WHERE account_id = :account_id AND used_at IS NULL",
)


async def authenticator_app_of(
    transaction: Transaction, account_id: str
) -> AuthenticatorApp | None:
    """Return the account's authenticator app, confirmed or proposed."""
    rows = await transaction.fetch(AUTHENTICATOR_APP_OF, account_id=account_id)
    return AuthenticatorApp(*rows[0]) if rows else None


async def propose_authenticator_app(
    transaction: Transaction, account_id: str, secret: str, session_hash: str
) -> str:
    """Store a secret that a code must confirm, unless there is one; return the stored secret.

    A secret that another session has seen, but not confirmed, is replaced.
    """
    [[stored]] = await transaction.fetch(
        PROPOSE_AUTHENTICATOR_APP, account_id=account_id, secret=secret, session=session_hash
    )
    return str(stored)


async def secrets_of_other_keys(
    transaction: Transaction, key_id: str, after: str, limit: int
) -> list[tuple[str, str]]:
    """Return secrets that another key has encrypted, each with its account, after this account."""
    rows = await transaction.fetch(
        SECRETS_OF_OTHER_KEYS, pattern=f"{key_id}.%", after=after, limit=limit
    )
    return [(row[0], row[1]) for row in rows]


async def replace_secret(
    transaction: Transaction, account_id: str, stored: str, renewed: str
) -> None:
    """Store the same secret in another form, unless it has been replaced or removed meanwhile."""
    await transaction.execute(REPLACE_SECRET, account_id=account_id, stored=stored, renewed=renewed)


async def remove_proposed_authenticator_app(transaction: Transaction, account_id: str) -> None:
    """Delete a secret that was not confirmed: a session that has ended may have seen it."""
    await transaction.execute(DELETE_PROPOSED_AUTHENTICATOR_APP, account_id=account_id)


async def use_step(transaction: Transaction, account_id: str, step: int, now: int) -> bool:
    """Mark a time step as used, so that its code works once; return whether it was unused."""
    used = await transaction.execute(USE_STEP, account_id=account_id, step=step, now=now)
    return used > 0


async def remove_authenticator_app(transaction: Transaction, account_id: str) -> None:
    """Remove the authenticator app."""
    await transaction.execute(DELETE_AUTHENTICATOR_APP, account_id=account_id)


async def remove_recovery_codes(transaction: Transaction, account_id: str) -> None:
    """Remove the account's recovery codes."""
    await transaction.execute(DELETE_RECOVERY_CODES, account_id=account_id)


async def replace_recovery_codes(
    transaction: Transaction, account_id: str, hashes: Collection[str]
) -> None:
    """Replace the account's recovery codes with these."""
    await transaction.execute(DELETE_RECOVERY_CODES, account_id=account_id)
    await transaction.insert(RECOVERY_CODES, [(account_id, hash_, None) for hash_ in hashes])


async def use_recovery_code(
    transaction: Transaction, account_id: str, hash_: str, now: int
) -> bool:
    """Mark a recovery code as used; return whether it was valid."""
    used = await transaction.execute(USE_RECOVERY_CODE, account_id=account_id, hash=hash_, now=now)
    return used > 0


async def recovery_codes_left(transaction: Transaction, account_id: str) -> int:
    """Return how many recovery codes are unused."""
    rows = await transaction.fetch(COUNT_UNUSED_RECOVERY_CODES, account_id=account_id)
    return int(rows[0][0])
