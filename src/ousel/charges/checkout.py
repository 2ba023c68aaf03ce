"""Checkout: what a charge means to the one who looks at it, and the receipt of its payment."""

from typing import Literal

import msgspec

from ousel.accounts import service as accounts
from ousel.charges.refusals import ReceiptNotFound
from ousel.charges.rules import Charge
from ousel.database.port import Transaction
from ousel.ledger.history import entry_of_transfer
from ousel.ledger.rules import Account, Entry
from ousel.partners.store import app_by_id

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


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A charge, who asks for it, and who looks at it."""

    charge: Charge
    app_name: str
    merchant: Account
    viewer: Account | None

    @property
    def state(self) -> CheckoutState:
        """What the viewer sees."""
        return checkout_state(self.charge, self.merchant, self.viewer)

    @property
    def is_own(self) -> bool:
        """Whether the viewer is the one who asks."""
        return self.viewer is not None and self.viewer.id == self.merchant.id


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A payment as one of its two sides can prove it."""

    charge: Charge
    app_name: str
    merchant: Account
    payer: Account
    entry: Entry  # the viewer's own side


def checkout_state(charge: Charge, merchant: Account, viewer: Account | None) -> CheckoutState:
    """Return what a charge is to the viewer: something to pay, or why it is not."""
    if charge.status == "paid":
        return "paid_by_you" if viewer is not None and viewer.id == charge.paid_by else "paid"
    if charge.status != "created":
        return charge.status
    if viewer is not None and viewer.id == merchant.id:
        return "own"
    if merchant.status == "frozen":
        return "not_receiving"
    return "signed_out" if viewer is None else _state_for_payer(charge, viewer)


async def read_checkout(
    transaction: Transaction, charge: Charge, viewer_id: str | None
) -> Checkout:
    """Return the charge with those whom it concerns."""
    merchant = await accounts.account_by_id(transaction, charge.account_id)
    return Checkout(
        charge=charge,
        app_name=await _app_name(transaction, charge, merchant),
        merchant=merchant,
        viewer=None if viewer_id is None else await accounts.account_by_id(transaction, viewer_id),
    )


async def read_receipt(transaction: Transaction, charge: Charge, viewer_id: str) -> Receipt:
    """Return the receipt of a paid charge, for one of its two sides alone."""
    if charge.paid_by is None or viewer_id not in {charge.paid_by, charge.account_id}:
        raise ReceiptNotFound
    assert charge.transfer_id is not None
    assert charge.paid_at is not None
    merchant = await accounts.account_by_id(transaction, charge.account_id)
    return Receipt(
        charge=charge,
        app_name=await _app_name(transaction, charge, merchant),
        merchant=merchant,
        payer=await accounts.account_by_id(transaction, charge.paid_by),
        entry=await entry_of_transfer(transaction, viewer_id, charge.transfer_id, charge.paid_at),
    )


def _state_for_payer(charge: Charge, payer: Account) -> CheckoutState:
    if payer.status == "frozen":
        return "frozen"
    return "payable" if payer.balance >= charge.amount else "short"


async def _app_name(transaction: Transaction, charge: Charge, merchant: Account) -> str:
    """Return the name of the charge's app; an app can be deleted, its charges stay."""
    app = await app_by_id(transaction, charge.app_id)
    return merchant.display_name if app is None else app.name
