"""GET /transfers/{id}/receipt: the receipt of a transfer, as JSON or as text."""

from typing import Annotated, Any, Final, Literal

import msgspec

from ousel.api.polling import granted_wait, prefer_header, preference_applied
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.concurrency import ConcurrencyLimit
from ousel.ledger.refusals import TransferNotFound
from ousel.sealed_log.refusals import ReceiptNotReady
from ousel.transfers.receipts import Receipt, ReceiptService
from ousel.transfers.records import TransferRecord

_TEXT: Final = b"text/plain; charset=utf-8"
_VARY: Final = (b"vary", b"Accept")
_HEADERS: Final[dict[str, dict[str, Any]]] = {"Prefer": prefer_header("the transfer is sealed")}


class EntryPart(msgspec.Struct, frozen=True):
    """What is needed to compute the hash of your own entry."""

    sequence: int
    previous_hash: str
    salt: str


class ReceiptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The proof that a transfer is in the sealed log."""

    object: Literal["receipt"] = "receipt"
    transfer: TransferRecord
    entry: EntryPart
    leaf: Annotated[str, msgspec.Meta(description="The leaf of the log, in Base64.")]
    index: Annotated[int, msgspec.Meta(ge=0, description="The place of the leaf in the log.")]
    proof: Annotated[
        list[str], msgspec.Meta(description="The hashes that lead to the root, in Base64.")
    ]
    checkpoint: Annotated[str, msgspec.Meta(description="The root of the log, as a signed note.")]
    signature: Annotated[
        str,
        msgspec.Meta(description="The log's signature of the receipt without this field."),
    ]


class ReceiptEndpoints:
    """Serves receipts to partners."""

    def __init__(self, receipts: ReceiptService, waits: ConcurrencyLimit) -> None:
        """Serve from this service; `waits` limits how many answers wait."""
        self._receipts = receipts
        self._waits = waits

    def routes(self, base: str) -> list[Route]:
        """Return the route below the base path."""
        return [
            Route(
                method="GET",
                path=f"{base}/transfers/{{id}}/receipt",
                endpoint=self.read,
                name="getReceipt",
                summary="Get the receipt of a transfer",
                description=(
                    "Anyone can check it offline with the key of the log. It is ready about a "
                    "second after the transfer. With Prefer: wait=N, the answer is delayed until "
                    "then, or for N seconds, and has Preference-Applied: wait=N. "
                    "With Accept: text/plain, it is the proof in the form of C2SP tlog-proof."
                ),
                path_parameters={"id": "The transfer's id."},
                request_headers=_HEADERS,
                successes={
                    200: AnswerDescription("The receipt.", ReceiptRecord, has_text_form=True)
                },
                refusals=(TransferNotFound, ReceiptNotReady),
            )
        ]

    async def read(self, call: Call[NoBody, NoQuery]) -> Answer:
        """Answer with the receipt of one of the caller's transfers."""
        account_id = call.partner.account_id
        with granted_wait(call.headers, self._waits, account_id) as seconds:
            call.extra_headers.extend(preference_applied(seconds))
            receipt = await self._receipts.find(account_id, call.path["id"], seconds or 0)
        return _answer(receipt, call.headers)


def _answer(receipt: Receipt, headers: Headers) -> Answer:
    accepted = headers.get(b"accept", b"").lower()
    shared: tuple[RawHeader, ...] = (_VARY,)
    if b"text/plain" in accepted and b"json" not in accepted:
        return Answer(200, receipt.text, _TEXT, shared)
    return Answer(200, receipt.content, headers=shared)
