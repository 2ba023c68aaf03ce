"""The ledger's totals, computed from the accounts alone without reading entries."""

from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID

TOTALS: Final = Statement(
    "the totals of all accounts",
    "SELECT COUNT(*), CAST(SUM(sequence) AS BIGINT), CAST(SUM(balance) AS BIGINT),"
    " CAST(SUM(CASE WHEN id = :system_account_id THEN -balance ELSE 0 END) AS BIGINT)"
    " FROM accounts",
)


class LedgerTotals(msgspec.Struct, frozen=True):
    """The totals of all accounts."""

    accounts: int
    entries: int  # the sum of the accounts' sequences
    balances_sum: int  # in millionths; always 0
    issued: int  # in millionths: what the system account owes


async def read_totals(transaction: Transaction) -> LedgerTotals:
    """Return the totals; there is always at least one account, the system account."""
    rows = await transaction.fetch(TOTALS, system_account_id=SYSTEM_ACCOUNT_ID)
    return LedgerTotals(*rows[0])
