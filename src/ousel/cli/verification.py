"""The whole proof: the journal replayed, and every paid charge compared with its payment."""

from typing import Any

from ousel.api.fields import money_field
from ousel.charges.verification import ChargeVerifier
from ousel.database.port import Transaction
from ousel.ledger.verify import Progress, VerifiedTotals, verify_database


async def verify_everything(
    transaction: Transaction, progress: Progress = lambda _: None
) -> tuple[VerifiedTotals, int]:
    """Return this snapshot's figures and number of paid charges, or raise the first thing wrong."""
    charges = ChargeVerifier(transaction)
    figures = await verify_database(transaction, progress, charges.add_entries)
    return figures, await charges.finish()


def totals_record(figures: VerifiedTotals) -> dict[str, Any]:
    """Return the figures as commands print them."""
    return {
        "entries": figures.entries,
        "accounts": figures.accounts,
        "transfers": figures.transfers,
        "issued": money_field(figures.issued),
    }
