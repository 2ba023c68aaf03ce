"""Full verification: the journal, the identifiers, and each paid charge with its payment."""

from collections.abc import Sequence
from typing import Any

from ousel.accounts.verification import verify_identifiers
from ousel.api.fields import money_field
from ousel.charges.verification import ChargeVerifier
from ousel.database.port import Transaction
from ousel.ledger.extension import AccountEnds, ExtensionCheck
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger, Progress, VerifiedTotals, verify_database


async def verify_everything(
    transaction: Transaction,
    progress: Progress = lambda _: None,
    older: AccountEnds | None = None,
) -> tuple[VerifiedTotals, int]:
    """Return the totals and the number of paid charges, or raise the first error found."""
    charges = ChargeVerifier(transaction)
    extension = ExtensionCheck(older or {})

    def observe(entries: Sequence[Entry]) -> None:
        charges.add_entries(entries)
        extension.add_entries(entries)

    totals = await verify_database(transaction, progress, observe)
    await extension.finish(DatabaseLedger(transaction))
    await verify_identifiers(transaction)
    return totals, await charges.finish()


def totals_record(totals: VerifiedTotals) -> dict[str, Any]:
    """Return the totals as commands print them."""
    return {
        "entries": totals.entries,
        "accounts": totals.accounts,
        "transfers": totals.transfers,
        "issued": money_field(totals.issued),
    }
