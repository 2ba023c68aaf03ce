"""Receipts: proofs that a transfer is in the sealed log, for one of its two accounts."""

from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from ousel.ledger.rules import Account, Entry
from ousel.ledger.search import HistorySearch
from ousel.sealed_log.log import SealedLog
from ousel.sealed_log.proof_text import encode_proof_text
from ousel.sealed_log.receipts import encode_receipt, entry_part, fingerprint, shareable_transfer
from ousel.sealed_log.refusals import ReceiptNotReady
from ousel.transfers.records import transfer_record

RECEIPTS_CACHED_MAX: Final = 4_096
# A receipt is made again after this time, because witnesses may have signed by then.
CACHED_SECONDS: Final = 10.0


class Receipt(msgspec.Struct, frozen=True):
    """A receipt in its two forms."""

    content: bytes  # JSON
    text: bytes  # C2SP tlog-proof, without anything that concerns one account alone
    fingerprint: str
    made_at: float


class ReceiptService:
    """Makes receipts for the accounts that sent or received a transfer."""

    def __init__(self, search: HistorySearch, log: SealedLog) -> None:
        """Find transfers with this search, and their leaves in this log."""
        self._search = search
        self._reader = log.reader
        self._cached: dict[tuple[str, str], Receipt] = {}  # by account and transfer

    async def find(self, account_id: str, transfer_id: str, seconds: float = 0) -> Receipt:
        """Return the receipt of one of the account's transfers.

        If it is not sealed yet, wait for up to this many seconds, then raise ReceiptNotReady.
        """
        cached = self._cached_receipt(account_id, transfer_id)
        if cached is not None:
            return cached
        own, entry, counterparty = await self._search.find_transfer(account_id, transfer_id)
        return await self.make(own, entry, counterparty, seconds)

    async def fingerprint(self, own: Account, entry: Entry, counterparty: Account) -> str | None:
        """Return the fingerprint of a receipt, or None if it is not ready."""
        with suppress(ReceiptNotReady):
            return (await self.make(own, entry, counterparty)).fingerprint
        return None

    async def make_shareable(
        self, own: Account, entry: Entry, counterparty: Account, seconds: float = 0
    ) -> bytes:
        """Return a receipt without what concerns the account alone, such as its balance."""
        sealed = await self._reader.find_entry(entry, seconds)
        record = msgspec.json.encode(transfer_record(entry, own, counterparty))
        members = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
        shared = msgspec.json.encode(shareable_transfer(members))
        return encode_receipt(shared, None, sealed.inclusion, sealed.signing_key)

    async def make(
        self, own: Account, entry: Entry, counterparty: Account, seconds: float = 0
    ) -> Receipt:
        """Return the receipt of this entry for its account; wait for the seal as `find` does."""
        cached = self._cached_receipt(entry.account_id, entry.transfer_id)
        if cached is not None:
            return cached
        sealed = await self._reader.find_entry(entry, seconds)
        record = msgspec.json.encode(transfer_record(entry, own, counterparty))
        receipt = Receipt(
            encode_receipt(
                record,
                entry_part(entry, sealed.previous_hash, sealed.secrets),
                sealed.inclusion,
                sealed.signing_key,
            ),
            encode_proof_text(sealed.inclusion).encode(),
            fingerprint(sealed.inclusion.leaf),
            monotonic(),
        )
        if len(self._cached) >= RECEIPTS_CACHED_MAX:
            self._cached.clear()
        self._cached[entry.account_id, entry.transfer_id] = receipt
        return receipt

    def _cached_receipt(self, account_id: str, transfer_id: str) -> Receipt | None:
        """Return a receipt that was made recently."""
        cached = self._cached.get((account_id, transfer_id))
        is_recent = cached is not None and monotonic() < cached.made_at + CACHED_SECONDS
        return cached if is_recent else None
