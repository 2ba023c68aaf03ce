"""Activity: a person's balance, and the movements as a list, as single pages and as CSV."""

import csv
import io
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import msgspec

from ousel.api.paging import cursor_at, sequence_from_cursor
from ousel.http.messages import Answer
from ousel.http.refusals import NotFound
from ousel.kernel.clock import MICROS_PER_SECOND, timestamp
from ousel.kernel.errors import InvalidField
from ousel.kernel.money import CURRENCY, json_from_micros
from ousel.ledger.history import KINDS, HistoryQuery
from ousel.ledger.rules import Account, Entry, Kind
from ousel.ledger.search import HistorySearch
from ousel.people.email_confirmation import EmailConfirmationService
from ousel.site.qr_codes import cached_qr_code
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit
from ousel.transfers.receipts import ReceiptService

PAGE_ENTRIES: Final = 25
RECEIPT_SECONDS_MAX: Final = 10  # how long a download waits until the movement is sealed
SEQUENCE_DIGITS_MAX: Final = 18  # such a number fits into 64 bits
CSV_PAGE_ENTRIES: Final = 1_000
CSV_COLUMNS: Final = (
    "time_utc",
    "transfer_id",
    "kind",
    "direction",
    "amount",
    "currency",
    "balance_after",
    "counterparty",
    "counterparty_number",
    "counterparty_name",
    "note",
    "charge_id",
    "entry",
    "hash",
)
KIND_LABELS: Final = {
    "transfer": "Transfer",
    "charge_payment": "Payment",
    "funding": "Funding",
    "redemption": "Redemption",
}

# Spreadsheets read a cell as a formula if it begins with = + - @, a tab or a line break. Some
# programs separate cells at semicolons or tabs. In these programs, such a character inside a text
# starts a new cell, and a line break starts a new row, even if the text is quoted. Quotation marks
# may stand between the separator and the formula. The last four characters are the full-width
# forms of = + - @.
_FORMULA: Final = re.compile('(^|[;\t\r\n]"*)(?=[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20])')
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # without it, spreadsheets guess a wrong encoding


class ActivityPages:
    """Serves a person's movements."""

    def __init__(
        self,
        pages: PageRenderer,
        search: HistorySearch,
        receipts: ReceiptService,
        emails: EmailConfirmationService,
        portal_url: str,
    ) -> None:
        """Find movements with this search; links for payers begin with this portal address."""
        self._pages = pages
        self._search = search
        self._receipts = receipts
        self._emails = emails
        self._portal_url = portal_url

    def routes(self) -> list[PageRoute]:
        """Return the routes of activity."""
        return [
            PageRoute(method="GET", path="/activity", answer=self.show_all),
            PageRoute(method="GET", path="/activity.csv", answer=self.download),
            PageRoute(method="GET", path="/activity/{entry}", answer=self.show),
            PageRoute(method="GET", path="/activity/{entry}/receipt", answer=self.receipt),
        ]

    async def show_all(self, visit: Visit) -> Answer:
        """Show the balance and a page of movements."""
        try:
            query = _parse_filters(visit, PAGE_ENTRIES)
        except InvalidField as refusal:
            query = HistoryQuery(account_id=visit.signed_in.account_id, limit=PAGE_ENTRIES)
            return await self._list_page(visit, query, refusal)
        return await self._list_page(visit, query)

    async def show(self, visit: Visit) -> Answer:
        """Show one movement."""
        own, entry, counterparty = await self._find_movement(visit)
        return self._pages.render(
            "portal/movement.html",
            visit,
            entry=entry,
            own=own,
            counterparty=counterparty,
            fingerprint=await self._receipts.fingerprint(own, entry, counterparty),
            kinds=KIND_LABELS,
            done=visit.query.get("done") if entry.amount < 0 else None,
        )

    async def receipt(self, visit: Visit) -> Answer:
        """Answer with the receipt of one movement, as soon as it is sealed.

        It does not show the balance, because people pass it on.
        """
        own, entry, counterparty = await self._find_movement(visit)
        receipt = await self._receipts.make_shareable(own, entry, counterparty, RECEIPT_SECONDS_MAX)
        name = f"ousel-receipt-{entry.transfer_id}.json"
        disposition = (b"content-disposition", f'attachment; filename="{name}"'.encode())
        return Answer(200, receipt, headers=(disposition,))

    async def _find_movement(self, visit: Visit) -> tuple[Account, Entry, Account]:
        """Return the person's account, the entry that the address names, and the counterparty."""
        number = visit.path["entry"]
        if not number.isascii() or not number.isdigit() or len(number) > SEQUENCE_DIGITS_MAX:
            raise NotFound("There is no such movement.")
        query = HistoryQuery(
            account_id=visit.signed_in.account_id, limit=1, before_sequence=int(number) + 1
        )
        found = await self._search.find(query)
        if not found.entries or found.entries[0][0].sequence != int(number):
            raise NotFound("There is no such movement.")
        return found.own, *found.entries[0]

    async def download(self, visit: Visit) -> Answer:
        """Answer with all movements that match the filters, as a stream of CSV."""
        query = _parse_filters(visit, CSV_PAGE_ENTRIES)
        name = f"ousel-{visit.signed_in.username}.csv"
        return Answer(
            200,
            b"",
            b"text/csv; charset=utf-8",
            ((b"content-disposition", f'attachment; filename="{name}"'.encode()),),
            self._rows(query),
        )

    async def _rows(self, query: HistoryQuery) -> AsyncIterator[bytes]:
        yield _BYTE_ORDER_MARK + _csv([CSV_COLUMNS])
        while True:
            found = (await self._search.find(query, has_limit=False)).entries
            page = found[: query.limit]
            yield _csv(_csv_row(entry, counterparty) for entry, counterparty in page)
            if len(found) <= query.limit:
                return
            query = msgspec.structs.replace(query, before_sequence=page[-1][0].sequence)

    async def _list_page(
        self, visit: Visit, query: HistoryQuery, refusal: InvalidField | None = None
    ) -> Answer:
        found = await self._search.find(query)
        page = found.entries[: query.limit]
        filters = {
            name: visit.query[name]
            for name in ("direction", "kind", "from", "to")
            if visit.query.get(name) and refusal is None
        }
        link = f"{self._portal_url}/send?to=@{found.own.username}"
        context: dict[str, Any] = {
            "own": found.own,
            "email": await self._emails.state(visit.signed_in.account_id),
            "link": link,
            "qr_code": cached_qr_code(link),
            "movements": page,
            "next_cursor": cursor_at(page[-1][0].sequence)
            if len(found.entries) > len(page)
            else None,
            "filters": filters,
            "kinds": KIND_LABELS,
        }
        return self._pages.render("portal/activity.html", visit, refusal=refusal, **context)


def _parse_filters(visit: Visit, limit: int) -> HistoryQuery:
    filters = visit.query
    kind: Kind | None = None
    if filters.get("kind"):
        kind = next((each for each in KINDS if each == filters["kind"]), None)
        if kind is None:
            raise InvalidField("Choose a kind from the list.", param="kind")
    if filters.get("direction", "") not in {"", "in", "out"}:
        raise InvalidField("Choose a direction from the list.", param="direction")
    first = _day(filters.get("from"), "from")
    last = _day(filters.get("to"), "to")
    return HistoryQuery(
        account_id=visit.signed_in.account_id,
        limit=limit,
        before_sequence=sequence_from_cursor(filters.get("cursor") or None),
        direction=filters.get("direction") or None,
        kind=kind,
        created_after=None if first is None else _midnight(first) - 1,
        created_before=None if last is None else _midnight(last + timedelta(days=1)),
    )


def _day(text: str | None, param: str) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.max
    if day == date.max:
        raise InvalidField("Write a day as 2026-01-31.", param=param)
    return day


def _midnight(day: date) -> int:
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(moment.timestamp()) * MICROS_PER_SECOND


def _csv(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _csv_row(entry: Entry, counterparty: Account) -> tuple[str, ...]:
    return (
        timestamp(entry.created_at),
        entry.transfer_id,
        entry.kind,
        "out" if entry.amount < 0 else "in",
        json_from_micros(abs(entry.amount)),
        CURRENCY,
        json_from_micros(entry.balance_after),
        counterparty.username,
        counterparty.account_number,
        _escape_formulas(counterparty.display_name),
        _escape_formulas(entry.note or ""),
        entry.charge_id or "",
        str(entry.sequence),
        entry.hash,
    )


def _escape_formulas(text: str) -> str:
    """Return the text escaped so that no spreadsheet reads any part of it as a formula."""
    return _FORMULA.sub(r"\1'", text)
