"""The rows of passkeys and of challenges."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest
from ousel.passkeys.rules import Challenge, Passkey

PASSKEYS: Final = Table(
    "passkeys",
    key=("account_id text", "id text"),
    columns=(
        "credential_id text",
        "public_key text",
        "name text",
        "sign_count bigint",
        "created_at bigint",
        "last_used_at bigint",
    ),
)
CHALLENGES: Final = Table(
    "passkey_challenges",
    key=("hash text",),
    columns=("browser text", "account_id text", "expires_at bigint"),
)

_COLUMNS: Final = ", ".join(PASSKEYS.names)

PASSKEYS_OF: Final = Statement(
    "the passkeys of an account, oldest first",
    f"SELECT {_COLUMNS} FROM passkeys WHERE account_id = :account_id ORDER BY id",
)
PASSKEYS_BY_CREDENTIAL: Final = Statement(
    "the passkeys with a credential id",
    f"SELECT {_COLUMNS} FROM passkeys WHERE credential_id = :credential_id",
)
HAS_PASSKEY: Final = Statement(
    "whether an account has a passkey",
    "SELECT 1 FROM passkeys WHERE account_id = :account_id LIMIT 1",
)
RENAME_PASSKEY: Final = Statement(
    "rename a passkey",
    "UPDATE passkeys SET name = :name WHERE account_id = :account_id AND id = :id",
)
# Many authenticators do not count: their counter is always 0.
USE_PASSKEY: Final = Statement(
    "record the use of a passkey if its counter has gone up, or is always 0",
    "UPDATE passkeys SET sign_count = :sign_count, last_used_at = :now"
    " WHERE account_id = :account_id AND id = :id"
    " AND (sign_count < :sign_count OR sign_count + :sign_count = 0)",
)
DELETE_PASSKEY: Final = Statement(
    "remove a passkey", "DELETE FROM passkeys WHERE account_id = :account_id AND id = :id"
)
DELETE_PASSKEYS: Final = Statement(
    "remove the passkeys of an account", "DELETE FROM passkeys WHERE account_id = :account_id"
)
USE_CHALLENGE: Final = Statement(
    "use a challenge, once",
    "DELETE FROM passkey_challenges WHERE hash = :hash AND browser = :browser"
    " AND account_id = :account_id AND expires_at > :now RETURNING expires_at",
)
DELETE_EXPIRED_CHALLENGES: Final = deletion_of_oldest(
    "delete some challenges that have expired", CHALLENGES, by="expires_at"
)


async def add_passkey(transaction: Transaction, passkey: Passkey) -> None:
    """Insert a passkey."""
    await transaction.insert(PASSKEYS, [msgspec.structs.astuple(passkey)])


async def passkeys_of(transaction: Transaction, account_id: str) -> list[Passkey]:
    """Return the account's passkeys, oldest first."""
    rows = await transaction.fetch(PASSKEYS_OF, account_id=account_id)
    return [Passkey(*row) for row in rows]


async def passkeys_by_credential(transaction: Transaction, credential_id: str) -> list[Passkey]:
    """Return the passkeys with this credential id; a stranger may register the same id again."""
    rows = await transaction.fetch(PASSKEYS_BY_CREDENTIAL, credential_id=credential_id)
    return [Passkey(*row) for row in rows]


async def has_passkey(transaction: Transaction, account_id: str) -> bool:
    """Return whether the account has a passkey."""
    return bool(await transaction.fetch(HAS_PASSKEY, account_id=account_id))


async def rename_passkey(transaction: Transaction, account_id: str, id_: str, name: str) -> None:
    """Change the name of a passkey."""
    await transaction.execute(RENAME_PASSKEY, account_id=account_id, id=id_, name=name)


async def use_passkey(
    transaction: Transaction, passkey: Passkey, sign_count: int, now: int
) -> bool:
    """Record a use; return False if the counter has not gone up, or the passkey was removed."""
    used = await transaction.execute(
        USE_PASSKEY,
        account_id=passkey.account_id,
        id=passkey.id,
        sign_count=sign_count,
        now=now,
    )
    return used > 0


async def remove_passkey(transaction: Transaction, account_id: str, id_: str) -> None:
    """Remove a passkey."""
    await transaction.execute(DELETE_PASSKEY, account_id=account_id, id=id_)


async def remove_passkeys(transaction: Transaction, account_id: str) -> None:
    """Remove all passkeys of the account."""
    await transaction.execute(DELETE_PASSKEYS, account_id=account_id)


async def add_challenge(transaction: Transaction, challenge: Challenge) -> None:
    """Insert a challenge."""
    await transaction.insert(CHALLENGES, [msgspec.structs.astuple(challenge)])


async def use_challenge(transaction: Transaction, challenge: Challenge, now: int) -> int | None:
    """Delete a challenge; return its expiry if it was valid, for this browser and this account."""
    used = await transaction.fetch(
        USE_CHALLENGE,
        hash=challenge.hash,
        browser=challenge.browser_hash,
        account_id=challenge.account_id,
        now=now,
    )
    return used[0][0] if used else None


async def delete_expired_challenges(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` challenges that expired before this moment."""
    return await transaction.execute(DELETE_EXPIRED_CHALLENGES, before=before, limit=limit)
