"""Verification of a large ledger on two cores: this process reads, and a second one checks.

Only this process reads the database, so all that is verified is one snapshot. It sends accounts
and entries, page by page, to the standard input of the second process, which checks them as
`ousel.ledger.verify` does and prints the totals. It does not explain errors: if it fails in any
way, the ledger has to be verified again in one process, which names the first error.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from subprocess import DEVNULL, PIPE
from typing import IO, Final

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.programs import program
from ousel.ledger import journal
from ousel.ledger.rules import Account, Entry
from ousel.ledger.verify import (
    PAGE_ACCOUNTS,
    DatabaseLedger,
    EntryObserver,
    Progress,
    VerificationFailed,
    VerifiedTotals,
    verify_ledger,
)

ENTRIES_MIN: Final = 200_000  # fewer are verified before a second process would have started

_LENGTH_BYTES: Final = 4


class _Page(msgspec.Struct, frozen=True, array_like=True):
    """Accounts or entries; a page without either says that all accounts were sent."""

    accounts: list[Account] = []
    entries: list[Entry] = []


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Page).decode


async def needs_two_processes(transaction: Transaction) -> bool:
    """Return whether the ledger is large, and this machine has several cores."""
    if (os.cpu_count() or 1) == 1:
        return False
    return await journal.count_entries(transaction, enough=ENTRIES_MIN) >= ENTRIES_MIN


async def verify_in_two_processes(
    transaction: Transaction, progress: Progress, observer: EntryObserver
) -> VerifiedTotals:
    """Return the totals of the ledger in this snapshot, or raise VerificationFailed."""
    command = [sys.executable, "-P", "-m", "ousel.ledger.verify_process"]
    with ExitStack() as stack:
        with _failures_of_process():
            started = program(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
            process = stack.enter_context(started)
        assert process.stdin is not None
        assert process.stdout is not None
        await send_ledger(transaction, process.stdin, progress, observer)
        with _failures_of_process():
            process.stdin.close()
            return msgspec.json.decode(process.stdout.read(), type=VerifiedTotals)


@contextmanager
def _failures_of_process() -> Iterator[None]:
    """Raise VerificationFailed if the second process has ended, which it does at an error.

    The database is read outside of this: a statement that times out raises an OSError as well.
    """
    try:
        yield
    except (OSError, msgspec.DecodeError):
        raise VerificationFailed("the ledger has an error") from None


async def send_ledger(
    transaction: Transaction, stream: IO[bytes], progress: Progress, observer: EntryObserver
) -> None:
    """Send all accounts and entries; each account is sent before its entries."""
    accounts = _AccountSender(transaction, stream)
    sent = 0
    async for entries in DatabaseLedger(transaction).entries():
        await accounts.send_until(entries[-1].account_id)
        _send(stream, _Page(entries=entries))
        observer(entries)
        sent += len(entries)
        progress(sent)
    await accounts.send_until(None)


class _AccountSender:
    """Sends the accounts in the order of their ids, and an empty page after the last one."""

    def __init__(self, transaction: Transaction, stream: IO[bytes]) -> None:
        self._transaction = transaction
        self._stream = stream
        self._last_id = ""
        self._all_sent = False

    async def send_until(self, account_id: str | None) -> None:
        """Send the accounts up to this one at least; up to the last one if it is None."""
        while not self._all_sent and (account_id is None or self._last_id < account_id):
            page = await journal.accounts_after(self._transaction, self._last_id, PAGE_ACCOUNTS)
            _send(self._stream, _Page(accounts=page))
            self._all_sent = not page
            self._last_id = page[-1].id if page else self._last_id


def _send(stream: IO[bytes], page: _Page) -> None:
    content = _encode(page)
    with _failures_of_process():
        stream.write(len(content).to_bytes(_LENGTH_BYTES) + content)


class ReceivedLedger:
    """The ledger that arrives on a stream, which can be read only once.

    The verification reads a ledger again only to look for a suspected error. Then this process
    fails, and the ledger is verified in one process.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        """Read what `send_ledger` writes to this stream."""
        self._stream = stream
        self._is_read = False
        self._accounts: deque[Account] = deque()
        self._has_all_accounts = False

    async def accounts(self) -> AsyncIterator[Account]:
        """Return the accounts; each of them arrives before its entries."""
        while self._accounts:
            yield self._accounts.popleft()
        assert self._has_all_accounts, "the ledger has ended too early"

    async def entries(self) -> AsyncIterator[list[Entry]]:
        """Return the whole journal, page by page, but only once."""
        if self._is_read:
            raise VerificationFailed("the ledger may have an error")
        self._is_read = True
        while (page := self._receive()) is not None:
            if page.entries:
                yield page.entries
            else:
                self._accounts.extend(page.accounts)
                self._has_all_accounts = not page.accounts

    def _receive(self) -> _Page | None:
        length = int.from_bytes(self._stream.read(_LENGTH_BYTES))
        return _decode(self._stream.read(length)) if length else None


if __name__ == "__main__":
    verified = asyncio.run(verify_ledger(ReceivedLedger(sys.stdin.buffer)))
    sys.stdout.buffer.write(msgspec.json.encode(verified))
