"""Charges: creating them, waiting for payment, canceling them."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from ousel_client.amounts import Amount, encode_object, parse_amount
from ousel_client.drivers import PageSteps
from ousel_client.errors import OuselError
from ousel_client.exchange import Steps, segment
from ousel_client.intents import parse_key, raise_conflict_or_doubt, with_key_in_errors
from ousel_client.operations import Driver, ListOperation, Operation, Resource, timestamp
from ousel_client.records import Charge
from ousel_client.refusals import ChargeNotCancelable, IdempotencyConflict
from ousel_client.waiting import wait_until_final

Status = Literal["created", "paid", "canceled", "expired"]


class Charges(Resource[Driver]):
    """Creates and reads charges."""

    @Operation
    def create(
        self,
        *,
        amount: Amount,
        description: str | None = None,
        reference: str | None = None,
        success_url: str | None = None,
        cancel_url: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[Charge]:
        """Create a charge. Send the payer to its `checkout_url`, then call `wait`."""
        key = parse_key(idempotency_key)
        terms = {
            "amount": parse_amount(amount),
            "description": description,
            "reference": reference,
            "success_url": success_url,
            "cancel_url": cancel_url,
        }
        return with_key_in_errors(self._create(terms, key), key)

    @Operation
    def get(self, charge_id: str) -> Steps[Charge]:
        """Return the charge as it is now."""
        return self._read(Charge, _path(charge_id))

    @Operation
    def wait(self, charge_id: str, timeout_seconds: float = 600.0) -> Steps[Charge]:
        """Return the charge as soon as it is paid, canceled or expired.

        Raises WaitTimedOut if the charge is still open when the time limit is reached. If the
        server does not answer, the call may last longer, until the retry policy gives up.
        """
        return wait_until_final(self._settings, self._get(_path(charge_id)), timeout_seconds)

    @Operation
    def cancel(self, charge_id: str) -> Steps[Charge]:
        """Cancel the charge. Raises ChargeNotCancelable if it is already final."""
        path = _path(charge_id)
        try:
            return (yield from self._record(Charge, self._post(f"{path}/cancel")))
        except ChargeNotCancelable as refusal:
            # An earlier attempt may have canceled the charge although its answer was lost.
            if not refusal.in_doubt or refusal.members.get("charge_status") != "canceled":
                raise
            return (yield from self._read(Charge, path))

    @ListOperation
    def list(
        self,
        *,
        order: Literal["newest", "oldest"] = "newest",
        status: Status | None = None,
        status_changed_after: datetime | None = None,
        reference: str | None = None,
        page_size: int = 100,
    ) -> PageSteps[Charge]:
        """Iterate over the matching charges, the newest first unless `order` says otherwise."""
        query = {
            "order": None if order == "newest" else order,
            "status": status,
            "status_changed_after": timestamp(status_changed_after),
            "reference": reference,
            "limit": page_size,
        }
        return self._pages(Charge, "/charges", query)

    def _create(self, terms: dict[str, str | Decimal | None], key: str) -> Steps[Charge]:
        request = self._post("/charges", encode_object(terms), idempotency_key=key)
        try:
            return (yield from self._record(Charge, request))
        except IdempotencyConflict as conflict:
            original_id = conflict.members.get("charge_id")
            if not isinstance(original_id, str):
                raise
            try:
                original = yield from self._read(Charge, _path(original_id))
            except OuselError as error:
                raise_conflict_or_doubt(conflict, error)
            conflict.original = original
            if any(getattr(original, name) != value for name, value in terms.items()):
                conflict.in_doubt = False  # the key belongs to the original, and always will
                raise
            return original


def _path(charge_id: str) -> str:
    return f"/charges/{segment(charge_id)}"
