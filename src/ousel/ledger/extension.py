"""Proof that a ledger only ever grew: it begins with everything that an older export has.

Each entry's hash covers all entries before it. So it is enough to look at the last entry that each
account has in the export: the ledger must have an entry with the same number and hash.
"""

from collections.abc import Iterable

from ousel.ledger.rules import Entry
from ousel.ledger.verify import LedgerSource, VerificationFailed, verify_ledger

LastEntries = dict[str, tuple[int, str]]  # number and hash of each account's last entry


async def last_entries(older: LedgerSource) -> LastEntries:
    """Verify an older ledger; return the number and hash of each account's last entry in it."""
    await verify_ledger(older)
    return {account.id: (account.sequence, account.head_hash) async for account in older.accounts()}


class ExtensionCheck:
    """Checks that a ledger has the entry at which each account of an older ledger ended."""

    def __init__(self, older: LastEntries) -> None:
        """Look for these entries."""
        self._ends = dict(older)

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Compare these entries with the last entries of the older ledger."""
        for entry in entries if self._ends else ():
            end = self._ends.get(entry.account_id)
            if end is None or end[0] != entry.sequence:
                continue
            if end[1] != entry.hash:
                raise VerificationFailed(
                    f"account {entry.account_id} has another history than the older export:"
                    f" their entries up to {entry.sequence} differ"
                )
            del self._ends[entry.account_id]

    async def finish(self, ledger: LedgerSource) -> None:
        """Raise an error if an account of the older ledger is missing, or is shorter now."""
        if not self._ends:
            return
        async for account in ledger.accounts():
            if account.id in self._ends and self._ends[account.id][0] == 0:  # it had no entries
                del self._ends[account.id]
        if self._ends:
            account_id, (sequence, _) = min(self._ends.items())
            entry = f"entry {sequence} of " if sequence else ""
            raise VerificationFailed(
                f"{entry}account {account_id} is in the older export, but not here"
            )
