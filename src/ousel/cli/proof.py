"""The whole proof: the journal replayed, and every paid charge compared with its payment."""

from typing import Any

from ousel.api.fields import money
from ousel.charges.proof import ChargesProof
from ousel.database.port import Transaction
from ousel.ledger.verify import Figures, Progress, verify


async def proven(
    transaction: Transaction, progress: Progress = lambda _: None
) -> tuple[Figures, int]:
    """Return this snapshot's figures and number of paid charges, or raise the first thing wrong."""
    charges = ChargesProof(transaction)
    figures = await verify(transaction, progress, charges.see)
    return figures, await charges.conclude()


def shown(figures: Figures) -> dict[str, Any]:
    """Return the figures as commands print them."""
    return {
        "entries": figures.entries,
        "accounts": figures.accounts,
        "transfers": figures.transfers,
        "issued": money(figures.issued),
    }
