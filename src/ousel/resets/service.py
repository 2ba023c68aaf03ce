"""Issuing and using reset links, in transactions that the callers open.

The caller locks the row of the account's holder before it issues or uses a link. So a new link, a
new password and a new email take effect one after the other.
"""

from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.ids import is_secret, new_secret, secret_hash
from ousel.resets import rules, store
from ousel.resets.rules import LinkKind, ResetLink


async def issue_link(
    transaction: Transaction, account_id: str, kind: LinkKind, clock: Clock
) -> str:
    """Return the secret of a new link; earlier links of this kind no longer work."""
    secret, now = new_secret(rules.LINK_PREFIX), clock()
    link = ResetLink(
        account_id=account_id,
        kind=kind,
        link_hash=secret_hash(secret),
        created_at=now,
        expires_at=now + rules.LINK_SECONDS * MICROS_PER_SECOND,
    )
    await store.replace(transaction, link)
    return secret


async def find_link(transaction: Transaction, secret: str, clock: Clock) -> ResetLink | None:
    """Return the link with this secret, if it can be used now."""
    if not is_secret(secret, rules.LINK_PREFIX):
        return None
    link = await store.by_hash(transaction, secret_hash(secret))
    return link if link is not None and link.is_valid_at(clock()) else None


async def use_link(transaction: Transaction, link: ResetLink) -> bool:
    """Use a link, which ends all links of the account; return False if it has ended already."""
    is_used_now = await store.use(transaction, link)
    if is_used_now:
        await store.delete_links_of(transaction, link.account_id)
    return is_used_now


async def end_links_of(transaction: Transaction, account_id: str) -> None:
    """End all links of the account."""
    await store.delete_links_of(transaction, account_id)


async def end_all_links(transaction: Transaction) -> None:
    """End the links of all accounts."""
    await store.delete_all_links(transaction)


async def delete_expired(transaction: Transaction, before: int, limit: int) -> int:
    """Delete up to `limit` links that expired before this moment."""
    return await store.delete_expired(transaction, before, limit)
