"""The hosted checkout: a charge's page for payers, its status, its payment and its receipt."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec

from ousel.api.polling import granted_wait, preference_applied
from ousel.charges.checkout import Checkout, CheckoutService
from ousel.charges.lifecycle import is_final, micros_until_expiry
from ousel.charges.refusals import ChargeNotFound, ReceiptNotFound
from ousel.charges.rules import Charge, Status
from ousel.charges.service import ChargeService
from ousel.http.messages import Answer, RawHeader, json_answer
from ousel.kernel.clock import MICROS_PER_SECOND, Clock, timestamp
from ousel.kernel.errors import Refusal
from ousel.kernel.money import money_text
from ousel.kernel.settings import Settings
from ousel.people.rules import counted_address
from ousel.site.qr_codes import cached_qr_code
from ousel.site.redirects import see_other
from ousel.site.rendering import PageRenderer
from ousel.site.visits import (
    PageRoute,
    Visit,
    needs_identity_check,
    require_identity_check,
)

REDIRECT_SECONDS: Final = 5
REDIRECT_AFTER_PAYMENT_MICROS_MAX: Final = 120 * MICROS_PER_SECOND
REDIRECT_FROM_RECEIPT_MICROS_MAX: Final = 20 * MICROS_PER_SECOND
WAIT_SECONDS_MAX: Final = 25  # proxies close connections that are silent for longer

_MICROS_PER_MILLISECOND: Final = 1_000


class StatusRecord(msgspec.Struct, frozen=True):
    """What an open checkout page polls for."""

    status: Status
    milliseconds_left: int


class CheckoutPages:
    """Serves the checkout pages to payers."""

    def __init__(
        self,
        pages: PageRenderer,
        checkouts: CheckoutService,
        charges: ChargeService,
        settings: Settings,
        clock: Clock,
    ) -> None:
        """Pay through this service; QR codes lead to pages at the portal of these settings."""
        self._pages = pages
        self._checkouts = checkouts
        self._charges = charges
        self._portal_url = settings.portal_url
        self._confirm_over_micros = settings.confirm_sending_over
        self._clock = clock

    def routes(self) -> list[PageRoute]:
        """Return the checkout's routes."""
        path = "/pay/{charge_id}"
        return [
            PageRoute(method="GET", path=path, answer=self.show, for_everyone=True),
            PageRoute(method="POST", path=path, answer=self.pay, for_everyone=True),
            PageRoute(method="GET", path=f"{path}/status", answer=self.status, for_everyone=True),
            PageRoute(method="GET", path=f"{path}/receipt", answer=self.receipt),
        ]

    async def show(self, visit: Visit) -> Answer:
        """Show the charge to anyone who knows its id."""
        return await self._with_charge(visit, self._show)

    async def pay(self, visit: Visit) -> Answer:
        """Pay the charge; a person who has already paid it is sent to the receipt."""
        return await self._with_charge(visit, self._pay)

    async def status(self, visit: Visit) -> Answer:
        """Answer with the charge's status.

        If the page asks to wait, answer when the status is final or the time is up.
        """
        charge = await self._charges.charge_by_id(visit.path["charge_id"])
        waits, address = self._charges.visitor_waits, counted_address(visit.ip_address)
        with granted_wait(visit.headers, waits, address, WAIT_SECONDS_MAX) as seconds:
            if seconds is not None:
                charge = await self._charges.wait_for_outcome(charge.account_id, charge.id, seconds)
        return json_answer(
            StatusRecord(charge.status, self._milliseconds_left(charge)),
            headers=preference_applied(seconds),
        )

    async def receipt(self, visit: Visit) -> Answer:
        """Show the receipt to the payer or to the recipient."""
        viewer_id = visit.signed_in.account_id
        try:
            charge = await self._charges.charge_by_id(visit.path["charge_id"])
        except ChargeNotFound:
            raise ReceiptNotFound from None
        receipt = await self._checkouts.receipt(charge, viewer_id)
        # Later, the payer comes back to read or print the receipt, and must not be sent away.
        is_new = self._was_paid_within(charge, REDIRECT_FROM_RECEIPT_MICROS_MAX)
        is_payer = viewer_id == charge.paid_by
        redirect = _redirect_headers(visit, charge) if is_new and is_payer else ()
        return self._pages.render(
            "charges/receipt.html",
            visit,
            headers=redirect,
            receipt=receipt,
            charge=charge,
            redirects=bool(redirect),
        )

    async def _with_charge(
        self, visit: Visit, serve: Callable[[Visit, Charge], Awaitable[Answer]]
    ) -> Answer:
        try:
            charge = await self._charges.charge_by_id(visit.path["charge_id"])
        except ChargeNotFound:
            return self._pages.render("charges/unknown.html", visit, status=HTTPStatus.NOT_FOUND)
        return await serve(visit, charge)

    async def _show(self, visit: Visit, charge: Charge) -> Answer:
        checkout = await self._checkout(visit, charge)
        if checkout.state == "paid_by_you" and _asks_for_redirect(visit):
            return see_other(f"/pay/{charge.id}/receipt?onward=yes")
        return self._checkout_page(visit, checkout)

    async def _pay(self, visit: Visit, charge: Charge) -> Answer:
        address = f"/pay/{charge.id}"
        if visit.person is None:
            return see_other(f"/login?next={quote(address, safe='')}")
        if is_final(charge.status):  # nothing is left to pay, so there is nothing to confirm
            is_payer = visit.person.account_id == charge.paid_by
            return see_other(f"{address}/receipt?onward=yes" if is_payer else address)
        if self._needs_identity_check(visit, charge):
            require_identity_check(visit, f"pay {money_text(charge.amount)}")
        try:
            await self._charges.pay(charge, visit.person.account_id)
        except Refusal as refusal:
            try:
                charge = await self._charges.charge_by_id(charge.id)
                checkout = await self._checkout(visit, charge)
            except Refusal:  # it may say that nothing was written
                raise refusal from refusal.__cause__
            if checkout.state in {"payable", "short"}:
                return self._checkout_page(visit, checkout, refusal)
            if checkout.state != "paid_by_you":
                return see_other(address)
        return see_other(f"{address}/receipt?onward=yes")

    async def _checkout(self, visit: Visit, charge: Charge) -> Checkout:
        viewer_id = None if visit.person is None else visit.person.account_id
        return await self._checkouts.checkout(charge, viewer_id)

    def _checkout_page(
        self, visit: Visit, checkout: Checkout, refusal: Refusal | None = None
    ) -> Answer:
        charge = checkout.charge
        address = f"/pay/{charge.id}"
        redirect = _redirect_headers(visit, charge) if self._was_just_paid(checkout) else ()
        return self._pages.render(
            "charges/checkout.html",
            visit,
            refusal=refusal,
            headers=redirect,
            checkout=checkout,
            charge=charge,
            state=checkout.state,
            needs_identity_check=self._needs_identity_check(visit, charge),
            address=address,
            redirects=bool(redirect),
            qr_code=None if is_final(charge.status) else cached_qr_code(self._portal_url + address),
            milliseconds_left=self._milliseconds_left(charge),
            expiry_text=_text_to_the_second(charge.expires_at),
        )

    def _needs_identity_check(self, visit: Visit, charge: Charge) -> bool:
        return needs_identity_check(visit, charge.amount, self._confirm_over_micros)

    def _was_just_paid(self, checkout: Checkout) -> bool:
        """Return whether the charge was just paid, and the payer's account is not signed in here.

        So the viewer is somebody else, or is the payer, who has paid on another device and is not
        signed in on this one. Then the page may redirect to the partner. The result is False for
        the merchant, who is not to be redirected. It is also False after a longer time, because
        otherwise a link to the page of any paid charge could be used to send people to the
        partner's address.
        """
        if checkout.state != "paid" or checkout.is_own:
            return False
        return self._was_paid_within(checkout.charge, REDIRECT_AFTER_PAYMENT_MICROS_MAX)

    def _was_paid_within(self, charge: Charge, micros: int) -> bool:
        return charge.paid_at is not None and self._clock() - charge.paid_at <= micros

    def _milliseconds_left(self, charge: Charge) -> int:
        """Return how long the charge can still be paid, rounded up."""
        return -(-micros_until_expiry(charge, self._clock()) // _MICROS_PER_MILLISECOND)


def _text_to_the_second(micros: int) -> str:
    """Return a time as text, rounded up to the second, for browsers without scripts."""
    utc = timestamp(-(-micros // MICROS_PER_SECOND) * MICROS_PER_SECOND)
    return f"{utc[:10]} {utc[11:19]} UTC"


def _asks_for_redirect(visit: Visit) -> bool:
    return visit.query.get("onward") == "yes"


def _redirect_headers(visit: Visit, charge: Charge) -> tuple[RawHeader, ...]:
    """Return the header that sends the browser to the partner's success_url after a payment."""
    if not _asks_for_redirect(visit) or charge.status != "paid" or charge.success_url is None:
        return ()
    return ((b"refresh", f"{REDIRECT_SECONDS}; url={charge.success_url}".encode("ascii")),)
