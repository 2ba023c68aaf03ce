"""What the checkout page shows to a viewer, and the receipt of a payment."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from ousel.accounts import service as accounts
from ousel.charges.refusals import ReceiptNotFound
from ousel.charges.rules import Charge
from ousel.database.port import Database, Transaction
from ousel.ledger.history import entry_of_transfer
from ousel.ledger.refusals import AccountFrozen, InsufficientBalance, SameAccount
from ousel.ledger.rules import Account, Entry, recipient_refusal, transfer_refusal
from ousel.partners.rules import App
from ousel.partners.service import find_app
from ousel.transfers.receipts import ReceiptService

CheckoutState = Literal[
    "signed_out",
    "payable",
    "short",
    "own",
    "frozen",
    "not_receiving",
    "paid_by_you",
    "paid",
    "canceled",
    "expired",
]

# Any other refusal is shown once the payer tries to pay.
_STATES_OF_PAYER: Final[Mapping[type, CheckoutState]] = {
    AccountFrozen: "frozen",
    InsufficientBalance: "short",
}


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A charge, the merchant who asks for it, and the viewer of the page."""

    charge: Charge
    app: App | None  # None if it was deleted
    merchant: Account
    viewer: Account | None

    @property
    def app_name(self) -> str:
        """Return whom the payer pays."""
        return _app_name(self.app, self.merchant)

    @property
    def state(self) -> CheckoutState:
        """Return which of the page's states the viewer sees."""
        return checkout_state(self.charge, self.merchant, self.viewer)

    @property
    def is_own(self) -> bool:
        """Return whether the viewer is the merchant."""
        return self.viewer is not None and self.viewer.id == self.merchant.id


class PaymentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the receipt page of a payment shows to its payer or its recipient."""

    charge: Charge
    app_name: str
    merchant: Account
    payer: Account
    entry: Entry  # in the viewer's account
    fingerprint: str | None = None  # of the movement's receipt from the sealed log, if it is ready


def checkout_state(charge: Charge, merchant: Account, viewer: Account | None) -> CheckoutState:
    """Return whether the viewer can pay the charge, or why not."""
    if charge.status == "paid":
        return "paid_by_you" if viewer is not None and viewer.id == charge.paid_by else "paid"
    if charge.status != "created":
        return charge.status
    refusal = None if viewer is None else transfer_refusal(viewer, merchant, charge.amount)
    if isinstance(refusal, SameAccount):
        return "own"
    if recipient_refusal(merchant) is not None:
        return "not_receiving"
    return "signed_out" if viewer is None else _STATES_OF_PAYER.get(type(refusal), "payable")


class CheckoutService:
    """Reads what the checkout page and the receipt of a charge show."""

    def __init__(self, database: Database, receipts: ReceiptService) -> None:
        """Read from this database; get the fingerprints of payments from these receipts."""
        self._database = database
        self._receipts = receipts

    async def checkout(self, charge: Charge, viewer_id: str | None) -> Checkout:
        """Return the charge with its merchant and its viewer."""

        async def read(transaction: Transaction) -> Checkout:
            merchant = await accounts.account_by_id(transaction, charge.account_id)
            viewer = None
            if viewer_id is not None:
                viewer = await accounts.account_by_id(transaction, viewer_id)
            return Checkout(
                charge=charge,
                app=await find_app(transaction, charge.app_id),
                merchant=merchant,
                viewer=viewer,
            )

        return await self._database.read(read)

    async def receipt(self, charge: Charge, viewer_id: str) -> PaymentSummary:
        """Return what the receipt page shows; only the payer and the recipient have one."""
        if charge.paid_by is None or viewer_id not in {charge.paid_by, charge.account_id}:
            raise ReceiptNotFound
        payer_id = charge.paid_by

        async def read(transaction: Transaction) -> PaymentSummary:
            merchant = await accounts.account_by_id(transaction, charge.account_id)
            return PaymentSummary(
                charge=charge,
                app_name=_app_name(await find_app(transaction, charge.app_id), merchant),
                merchant=merchant,
                payer=await accounts.account_by_id(transaction, payer_id),
                entry=await _payment_entry(transaction, charge, viewer_id),
            )

        summary = await self._database.read(read)
        parties = (summary.payer, summary.merchant)
        own, other = parties if viewer_id == payer_id else parties[::-1]
        return msgspec.structs.replace(
            summary, fingerprint=await self._receipts.fingerprint(own, summary.entry, other)
        )

    async def merchant_entry(self, charge: Charge) -> Entry | None:
        """Return the payment's entry in the merchant's account, or None if the charge is unpaid."""
        if charge.paid_at is None:
            return None
        return await self._database.read(
            lambda transaction: _payment_entry(transaction, charge, charge.account_id)
        )


async def _payment_entry(transaction: Transaction, charge: Charge, account_id: str) -> Entry:
    assert charge.transfer_id is not None
    assert charge.paid_at is not None
    return await entry_of_transfer(transaction, account_id, charge.transfer_id, charge.paid_at)


def _app_name(app: App | None, merchant: Account) -> str:
    """Return the name of the app, or the name of the merchant if the app was deleted."""
    return merchant.display_name if app is None else app.name
