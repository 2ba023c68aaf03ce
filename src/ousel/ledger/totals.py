"""The ledger's figures at one moment, from the accounts alone: no entry is read for them."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID

TOTALS: Final = Statement(
    "the figures of all accounts together",
    "SELECT COUNT(*), CAST(SUM(sequence) AS BIGINT), CAST(SUM(balance) AS BIGINT),"
    " CAST(SUM(CASE WHEN id = :system_account_id THEN -balance ELSE 0 END) AS BIGINT)"
    " FROM accounts",
)


class LedgerTotals(msgspec.Struct, frozen=True):
    """What all accounts have together."""

    accounts: int
    entries: int  # each account counts its own
    balances_sum: int  # in millionths, and always 0
    issued: int  # in millionths: what the system account owes


async def read_totals(transaction: Transaction) -> LedgerTotals:
    """Return the figures; the system account is always there."""
    rows = await transaction.fetch(TOTALS, system_account_id=SYSTEM_ACCOUNT_ID)
    return LedgerTotals(*rows[0])
