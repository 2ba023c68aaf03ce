"""Full verification: journal, identifiers, charges and their payments, dates, sealed log."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ousel.accounts.verification import verify_identifiers
from ousel.api.fields import money_field
from ousel.charges.verification import ChargeVerifier
from ousel.database.port import Transaction
from ousel.ledger.dates import DateVerifier
from ousel.ledger.extension import ExtensionCheck, LastEntries
from ousel.ledger.rules import Entry
from ousel.ledger.verify import (
    DatabaseLedger,
    EntryObserver,
    Progress,
    VerificationFailed,
    VerifiedTotals,
    verify_database,
)
from ousel.ledger.verify_process import needs_two_processes, verify_in_two_processes
from ousel.sandbox.clock import time_of_servers
from ousel.sealed_log.keys import LogKey
from ousel.sealed_log.verification import verify_log


async def verify_everything(
    transaction: Transaction,
    progress: Progress = lambda _: None,
    older: LastEntries | None = None,
    log_key: LogKey | None = None,
) -> tuple[VerifiedTotals, dict[str, int]]:
    """Return the totals and further counts by name, or raise the first error found."""
    recomputed = await _recompute_journal(transaction, progress, older or {})
    await recomputed.extension.finish(DatabaseLedger(transaction))
    await verify_identifiers(transaction)
    charges_paid = await recomputed.charges.finish()
    leaves = await verify_log(transaction, log_key)
    recomputed.dates.finish()
    unsealed = recomputed.totals.transfers - leaves
    return recomputed.totals, {"charges_paid": charges_paid, "leaves": leaves, "unsealed": unsealed}


class _RecomputedJournal(msgspec.Struct, frozen=True):
    """The totals of the journal, and the checks that have seen all its entries."""

    totals: VerifiedTotals
    charges: ChargeVerifier
    extension: ExtensionCheck
    dates: DateVerifier


async def _recompute_journal(
    transaction: Transaction, progress: Progress, older: LastEntries
) -> _RecomputedJournal:
    """Recompute the journal, in two processes if it is large.

    If this fails in two processes, it is repeated in one, which can name the error.
    """
    if await needs_two_processes(transaction):
        with suppress(VerificationFailed):
            return await _recompute_with(verify_in_two_processes, transaction, progress, older)
    return await _recompute_with(verify_database, transaction, progress, older)


async def _recompute_with(
    verify: Callable[[Transaction, Progress, EntryObserver], Awaitable[VerifiedTotals]],
    transaction: Transaction,
    progress: Progress,
    older: LastEntries,
) -> _RecomputedJournal:
    charges = ChargeVerifier(transaction)
    extension = ExtensionCheck(older)
    dates = DateVerifier(await time_of_servers(transaction))

    def observe(entries: Sequence[Entry]) -> None:
        charges.add_entries(entries)
        extension.add_entries(entries)
        dates.add_entries(entries)

    totals = await verify(transaction, progress, observe)
    return _RecomputedJournal(totals, charges, extension, dates)


def totals_record(totals: VerifiedTotals) -> dict[str, Any]:
    """Return the totals as commands print them."""
    return {
        "entries": totals.entries,
        "accounts": totals.accounts,
        "transfers": totals.transfers,
        "issued": money_field(totals.issued),
    }
