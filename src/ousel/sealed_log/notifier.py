"""Waiting until the log has grown."""

from collections.abc import Collection, Mapping
from typing import Final

from typing_extensions import override

from ousel.database.change_notifier import ChangeNotifier
from ousel.database.port import Transaction
from ousel.sealed_log import store

_LOG: Final = "log"  # the only row that is waited for


class LogNotifier(ChangeNotifier):
    """Wakes those who wait for the log to grow.

    The mark of the log (see ChangeNotifier) is its size.
    """

    async def wait_for_growth(self, size: int, seconds: float) -> None:
        """Return when the log may have more leaves than this, or after this many seconds."""
        await self._wait(_LOG, size, seconds)

    def notify_of_growth(self) -> None:
        """Wake all who wait, because this process has appended to the log."""
        self.notify(_LOG)

    @override
    async def _find_changed(
        self, transaction: Transaction, marks: Mapping[str, int]
    ) -> Collection[str]:
        head = await store.read_head(transaction)
        return [row_id for row_id, size in marks.items() if head.size > size]
