"""Full verification: journal, identifiers, charges and their payments, dates, sealed log."""

from collections.abc import Sequence
from typing import Any

from ousel.accounts.verification import verify_identifiers
from ousel.api.fields import money_field
from ousel.charges.verification import ChargeVerifier
from ousel.database.port import Transaction
from ousel.ledger.dates import DateVerifier
from ousel.ledger.extension import AccountEnds, ExtensionCheck
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger, Progress, VerifiedTotals, verify_database
from ousel.sandbox.clock import time_of_servers
from ousel.sealed_log.keys import LogKey
from ousel.sealed_log.verification import verify_log


async def verify_everything(
    transaction: Transaction,
    progress: Progress = lambda _: None,
    older: AccountEnds | None = None,
    log_key: LogKey | None = None,
) -> tuple[VerifiedTotals, dict[str, int]]:
    """Return the totals and further counts by name, or raise the first error found."""
    charges = ChargeVerifier(transaction)
    extension = ExtensionCheck(older or {})
    dates = DateVerifier(await time_of_servers(transaction))

    def observe(entries: Sequence[Entry]) -> None:
        charges.add_entries(entries)
        extension.add_entries(entries)
        dates.add_entries(entries)

    totals = await verify_database(transaction, progress, observe)
    await extension.finish(DatabaseLedger(transaction))
    await verify_identifiers(transaction)
    charges_paid = await charges.finish()
    leaves = await verify_log(transaction, log_key)
    dates.finish()
    unsealed = totals.transfers - leaves
    return totals, {"charges_paid": charges_paid, "leaves": leaves, "unsealed": unsealed}


def totals_record(totals: VerifiedTotals) -> dict[str, Any]:
    """Return the totals as commands print them."""
    return {
        "entries": totals.entries,
        "accounts": totals.accounts,
        "transfers": totals.transfers,
        "issued": money_field(totals.issued),
    }
