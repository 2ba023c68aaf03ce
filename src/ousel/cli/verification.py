"""Full verification: replay the journal, and compare every paid charge with its payment."""

from typing import Any

from ousel.api.fields import money_field
from ousel.charges.verification import ChargeVerifier
from ousel.database.port import Transaction
from ousel.ledger.verify import Progress, VerifiedTotals, verify_database


async def verify_everything(
    transaction: Transaction, progress: Progress = lambda _: None
) -> tuple[VerifiedTotals, int]:
    """Return the totals and the number of paid charges, or raise the first error found."""
    charges = ChargeVerifier(transaction)
    totals = await verify_database(transaction, progress, charges.add_entries)
    return totals, await charges.finish()


def totals_record(totals: VerifiedTotals) -> dict[str, Any]:
    """Return the totals as commands print them."""
    return {
        "entries": totals.entries,
        "accounts": totals.accounts,
        "transfers": totals.transfers,
        "issued": money_field(totals.issued),
    }
