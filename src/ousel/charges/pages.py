"""The hosted checkout: a charge's page for payers, its status, its payment and its receipt."""

from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from ousel.api.polling import wait_seconds
from ousel.charges.checkout import Checkout, read_checkout, read_receipt
from ousel.charges.refusals import ChargeNotFound, ReceiptNotFound
from ousel.charges.rules import Charge, Status
from ousel.charges.service import ChargeService
from ousel.database.port import Database
from ousel.http.messages import Answer, RawHeader, json_answer
from ousel.kernel.clock import MICROS_PER_SECOND, Clock, timestamp
from ousel.kernel.errors import Refusal
from ousel.site.qr_codes import qr_code
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import PageRoute, Visit

ONWARD_SECONDS: Final = 5
SCREEN_MICROS_MAX: Final = 120 * MICROS_PER_SECOND
CODES_KEPT_MAX: Final = 1_000
WAIT_SECONDS_MAX: Final = 25  # shorter than the time that proxies give a silent connection

_MICROS_PER_MILLISECOND: Final = 1_000


class StatusRecord(msgspec.Struct, frozen=True):
    """What a checkout page that is open somewhere asks for again and again."""

    status: Status
    milliseconds_left: int


class CheckoutPages:
    """Serves payers."""

    def __init__(
        self,
        pages: PageRenderer,
        database: Database,
        charges: ChargeService,
        portal_url: str,
        clock: Clock,
    ) -> None:
        """Take payments at this desk; phones find the page at the portal's address."""
        self._pages = pages
        self._database = database
        self._charges = charges
        self._portal_url = portal_url
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the checkout's routes."""
        one = "/pay/{charge_id}"
        return [
            PageRoute(method="GET", path=one, handle=self.show, for_everyone=True),
            PageRoute(method="POST", path=one, handle=self.pay, for_everyone=True),
            PageRoute(method="GET", path=f"{one}/status", handle=self.status, for_everyone=True),
            PageRoute(method="GET", path=f"{one}/receipt", handle=self.receipt),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the charge to whoever comes with its id."""
        return await self._with_charge(visit, self._show)

    async def pay(self, visit: Visit) -> Answer:
        """Pay the charge; whoever has paid it already is only shown the receipt."""
        return await self._with_charge(visit, self._pay)

    async def status(self, visit: Visit) -> Answer:
        """Answer the charge's status, as soon as it is final where the page would wait."""
        charge = await self._charges.any_charge(visit.path["charge_id"])
        seconds = wait_seconds(visit.headers.get(b"prefer"))
        headers: tuple[RawHeader, ...] = ()
        if seconds is not None and self._charges.notifier.has_room_for_stranger(charge.id):
            seconds = min(seconds, WAIT_SECONDS_MAX)
            charge = await self._charges.wait_for_outcome(charge.account_id, charge.id, seconds)
            headers = ((b"preference-applied", b"wait=%d" % seconds),)
        return json_answer(
            StatusRecord(charge.status, self._milliseconds_left(charge)), headers=headers
        )

    async def receipt(self, visit: Visit) -> Answer:
        """Show the receipt to the payer and to the one who was paid."""
        viewer_id = visit.signed_in.account_id
        try:
            charge = await self._charges.any_charge(visit.path["charge_id"])
        except ChargeNotFound:
            raise ReceiptNotFound from None
        receipt = await self._database.read(
            lambda transaction: read_receipt(transaction, charge, viewer_id)
        )
        onward = _onward(visit, charge)
        return self._pages.render(
            "charges/receipt.html",
            visit,
            headers=onward,
            receipt=receipt,
            charge=charge,
            goes_onward=bool(onward),
        )

    async def _with_charge(
        self, visit: Visit, serve: Callable[[Visit, Charge], Awaitable[Answer]]
    ) -> Answer:
        try:
            charge = await self._charges.any_charge(visit.path["charge_id"])
        except ChargeNotFound:
            return self._pages.render("charges/unknown.html", visit, status=HTTPStatus.NOT_FOUND)
        return await serve(visit, charge)

    async def _show(self, visit: Visit, charge: Charge) -> Answer:
        checkout = await self._checkout(visit, charge)
        if checkout.state == "paid_by_you" and _wants_onward(visit):
            return see_other(f"/pay/{charge.id}/receipt?onward=yes")
        return self._checkout_page(visit, checkout)

    async def _pay(self, visit: Visit, charge: Charge) -> Answer:
        address = f"/pay/{charge.id}"
        if visit.person is None:
            return see_other(f"/login?next={quote(address, safe='')}")
        try:
            await self._charges.pay(charge, visit.person.account_id)
        except Refusal as refusal:
            charge = await self._charges.any_charge(charge.id)
            checkout = await self._checkout(visit, charge)
            if checkout.state == "payable":
                return self._checkout_page(visit, checkout, refusal)
            if checkout.state != "paid_by_you":
                return see_other(address)
        return see_other(f"{address}/receipt?onward=yes")

    async def _checkout(self, visit: Visit, charge: Charge) -> Checkout:
        viewer_id = None if visit.person is None else visit.person.account_id
        return await self._database.read(
            lambda transaction: read_checkout(transaction, charge, viewer_id)
        )

    def _checkout_page(
        self, visit: Visit, checkout: Checkout, refusal: Refusal | None = None
    ) -> Answer:
        charge = checkout.charge
        address = f"/pay/{charge.id}"
        onward = _onward(visit, charge) if self._was_open(checkout) else ()
        return self._pages.render(
            "charges/checkout.html",
            visit,
            status=HTTPStatus.OK if refusal is None else refusal.status,
            headers=onward,
            checkout=checkout,
            charge=charge,
            state=checkout.state,
            address=address,
            refusal=refusal,
            goes_onward=bool(onward),
            qr_code=_cached_qr_code(self._portal_url + address)
            if charge.status == "created"
            else None,
            milliseconds_left=self._milliseconds_left(charge),
            expires_shown=_second_shown(charge.expires_at),
        )

    def _was_open(self, checkout: Checkout) -> bool:
        """Say whether this may be a screen that somebody else has just paid for.

        It goes on to the partner by itself; later, the address would only serve to lead
        strangers astray.
        """
        paid_at = checkout.charge.paid_at
        if checkout.state != "paid" or paid_at is None or checkout.is_own:
            return False
        return self._clock() - paid_at <= SCREEN_MICROS_MAX

    def _milliseconds_left(self, charge: Charge) -> int:
        """Return how long the charge can still be paid, rounded up: never less than it is."""
        return max(-((self._clock() - charge.expires_at) // _MICROS_PER_MILLISECOND), 0)


@lru_cache(CODES_KEPT_MAX)
def _cached_qr_code(address: str) -> str:
    """Return the QR code of a page that strangers open: to draw one takes longer than the page."""
    return qr_code(address)


def _second_shown(micros: int) -> str:
    """Return a moment to the second, rounded up, for browsers without scripts."""
    utc = timestamp(-(-micros // MICROS_PER_SECOND) * MICROS_PER_SECOND)
    return f"{utc[:10]} {utc[11:19]} UTC"


def _wants_onward(visit: Visit) -> bool:
    return visit.query.get("onward") == "yes"


def _onward(visit: Visit, charge: Charge) -> tuple[RawHeader, ...]:
    """Return the header that takes the browser on to the partner, for one who has just paid."""
    if not _wants_onward(visit) or charge.status != "paid" or charge.success_url is None:
        return ()
    return ((b"refresh", f"{ONWARD_SECONDS}; url={charge.success_url}".encode("ascii")),)
