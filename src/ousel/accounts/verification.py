"""Proof that each username, account number and email points to the account that it belongs to.

Somebody who changes which account an identifier points to could receive another's money. The
journal cannot show this, since it names accounts by their ids.
"""

from collections.abc import AsyncIterator
from typing import Final

from ousel.accounts import store
from ousel.database.port import Transaction
from ousel.ledger.bucket_sums import BucketSums
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID
from ousel.ledger.verify import VerificationFailed

PAGE_ROWS: Final = 5_000

Pair = tuple[str, str]  # an identifier and an account's id


async def verify_identifiers(transaction: Transaction) -> None:
    """Compare the identifiers with the accounts and their holders, or raise the first error."""
    sums = BucketSums()  # pairs from accounts are added, pairs from identifiers are subtracted
    async for pair in _pairs_of_accounts(transaction):
        sums.add(pair)
    async for pair in _pairs_of_identifiers(transaction):
        sums.subtract(pair)
    if not sums.is_balanced:
        raise VerificationFailed(await _describe_mismatch(transaction, sums))


async def _pairs_of_accounts(transaction: Transaction) -> AsyncIterator[Pair]:
    """Yield each account's identifiers, according to the account and its holder."""
    after = SYSTEM_ACCOUNT_ID  # the first of all ids; the system account has no identifier
    while page := await store.names_after(transaction, after, PAGE_ROWS):
        for account_id, username, number, email in page:
            yield f"@{username}", account_id
            yield number, account_id
            if email is not None:
                yield email, account_id
        after = page[-1][0]


async def _pairs_of_identifiers(transaction: Transaction) -> AsyncIterator[Pair]:
    """Yield each identifier with the account that it points to."""
    after = ""
    while page := await store.identifiers_after(transaction, after, PAGE_ROWS):
        for pair in page:
            yield pair
        after = page[-1][0]


async def _describe_mismatch(transaction: Transaction, sums: BucketSums) -> str:
    """Describe an identifier that points to the wrong account, or to none."""
    owners = [pair async for pair in _pairs_of_accounts(transaction) if sums.may_mismatch(pair)]
    found = [pair async for pair in _pairs_of_identifiers(transaction) if sums.may_mismatch(pair)]
    identifier, account_id = min(set(owners) ^ set(found))
    owner_id = dict(owners).get(identifier)
    target_id = dict(found).get(identifier)
    if target_id is None:
        return f"the identifier {identifier} of account {account_id} points to no account"
    if owner_id is None:
        return f"the identifier {identifier} points to account {account_id}, which does not have it"
    return f"the identifier {identifier} of account {owner_id} points to account {target_id}"
