"""Waiting until money moves from or to an account."""

from collections.abc import Collection, Iterable, Mapping

from typing_extensions import override

from ousel.database.change_notifier import ChangeNotifier
from ousel.database.port import Transaction
from ousel.ledger.batch import Blocked, PostingResult
from ousel.ledger.journal import accounts_with_later_entries
from ousel.ledger.rules import Account, Movement


class MovementNotifier(ChangeNotifier):
    """Wakes those who wait for an account's next entry.

    The mark of an account (see ChangeNotifier) is the number of its last entry.
    """

    async def wait_for_movement(self, account: Account, seconds: float) -> None:
        """Return when the account may have a new entry, or after this many seconds."""
        await self._wait(account.id, account.sequence, seconds)

    def notify_of_results(self, results: Iterable[PostingResult | Blocked]) -> None:
        """Wake those who wait for the accounts that these postings have moved money between."""
        for result in results if self._awaited else ():
            if isinstance(result, PostingResult) and isinstance(result.outcome, Movement):
                self.notify(result.outcome.debit.account_id)
                self.notify(result.outcome.credit.account_id)

    @override
    async def _find_changed(
        self, transaction: Transaction, marks: Mapping[str, int]
    ) -> Collection[str]:
        return await accounts_with_later_entries(transaction, marks)
