"""The check of partner keys inside the transaction that moves the money.

The authentication relies on its cache, and a key may be revoked at any time. So the transaction
looks the key up itself, and a revoked key moves no money.
"""

from collections.abc import Iterable
from typing import Final

from ousel.database.port import Transaction
from ousel.database.statements import Statement
from ousel.ledger.rules import KeyCheck, Posting

# The view `warrants` lists the partner keys, and when each expires (migration 0005).
VALID_KEYS: Final = (
    "ROWS(:checked, account_id text, handle text)"
    " JOIN warrants ON warrants.account_id = checked.account_id"
    " AND warrants.handle = checked.handle"
    " AND (warrants.ends_at IS NULL OR warrants.ends_at > :now)"
)
KEYS_THAT_ARE_VALID: Final = Statement(
    "the checked partner keys that are valid",
    f"SELECT checked.account_id, checked.handle FROM {VALID_KEYS}",
)

PartnerKeys = set[tuple[str, str]]  # account id and handle


def keys_to_check(postings: Iterable[Posting]) -> PartnerKeys:
    """Return the partner keys that these postings depend on."""
    return {
        (posting.key_check.account_id, posting.key_check.handle)
        for posting in postings
        if posting.key_check is not None
    }


async def find_rejected_keys(
    transaction: Transaction, checked: PartnerKeys, now: int
) -> PartnerKeys:
    """Return the keys that are not valid now."""
    rows = await transaction.fetch(KEYS_THAT_ARE_VALID, checked=checked, now=now)
    return checked.difference(map(tuple, rows))


def is_rejected(check: KeyCheck | None, rejected: PartnerKeys) -> bool:
    """Return whether this check failed; a posting without a check is never rejected."""
    return check is not None and (check.account_id, check.handle) in rejected
