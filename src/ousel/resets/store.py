"""The rows of reset links."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest
from ousel.resets.rules import ResetLink

RESET_LINKS: Final = Table(
    "reset_links",
    key=("account_id text", "kind text"),
    columns=("link_hash text", "created_at bigint", "expires_at bigint"),
)

_COLUMNS: Final = ", ".join(RESET_LINKS.names)

LINK_BY_HASH: Final = Statement(
    "the reset link with a hash",
    f"SELECT {_COLUMNS} FROM reset_links WHERE link_hash = :link_hash",
)
DELETE_LINK: Final = Statement(
    "delete the reset link of an account and a kind",
    "DELETE FROM reset_links WHERE account_id = :account_id AND kind = :kind",
)
USE_LINK: Final = Statement(
    "delete a reset link, once",
    "DELETE FROM reset_links"
    " WHERE account_id = :account_id AND kind = :kind AND link_hash = :link_hash",
)
DELETE_LINKS_OF: Final = Statement(
    "delete the reset links of an account",
    "DELETE FROM reset_links WHERE account_id = :account_id",
)
DELETE_ALL_LINKS: Final = Statement("delete all reset links", "DELETE FROM reset_links")
DELETE_EXPIRED: Final = deletion_of_oldest(
    "delete some reset links that have expired", RESET_LINKS, by="expires_at"
)


async def replace(transaction: Transaction, link: ResetLink) -> None:
    """Insert a link, which replaces the account's earlier link of the same kind."""
    await transaction.execute(DELETE_LINK, account_id=link.account_id, kind=link.kind)
    await transaction.insert(RESET_LINKS, [msgspec.structs.astuple(link)])


async def by_hash(transaction: Transaction, link_hash: str) -> ResetLink | None:
    """Return the link with this hash, valid or not."""
    rows = await transaction.fetch(LINK_BY_HASH, link_hash=link_hash)
    return ResetLink(*rows[0]) if rows else None


async def use(transaction: Transaction, link: ResetLink) -> bool:
    """Delete the link; return whether it was there."""
    used = await transaction.execute(
        USE_LINK, account_id=link.account_id, kind=link.kind, link_hash=link.link_hash
    )
    return used > 0


async def delete_links_of(transaction: Transaction, account_id: str) -> None:
    """Delete all links of the account."""
    await transaction.execute(DELETE_LINKS_OF, account_id=account_id)


async def delete_all_links(transaction: Transaction) -> None:
    """Delete the links of all accounts."""
    await transaction.execute(DELETE_ALL_LINKS)


async def delete_expired(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` links that expired before this moment."""
    return await transaction.execute(DELETE_EXPIRED, before=before, limit=limit)
