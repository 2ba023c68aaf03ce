"""Calls that only a sandbox has: time, payers, money, mail and rehearsals.

A live server answers NotFound. Calls that change something have no idempotency key, so they are not
sent again after a lost answer. Only `finish_rehearsal` is sent again, because repeating it does no
harm.
"""

from ousel_client.amounts import Amount, encode_object, parse_amount
from ousel_client.drivers import PageSteps
from ousel_client.exchange import Steps, segment
from ousel_client.operations import Driver, ListOperation, Operation, Resource
from ousel_client.records import Charge, Rehearsal, SandboxMail, SandboxTime, Transfer


class Sandbox(Resource[Driver]):
    """Does what would otherwise need time, a payer or the operator."""

    @Operation
    def advance_clock(self, seconds: int) -> Steps[SandboxTime]:
        """Move the server's clock forward."""
        body = encode_object({"advance": seconds})
        return self._record(SandboxTime, self._post("/sandbox/clock", body, repeatable=False))

    @Operation
    def pay(self, charge_id: str, *, payer: str) -> Steps[Charge]:
        """Pay a charge from the balance of the account `payer`."""
        path = f"/sandbox/charges/{segment(charge_id)}/pay"
        body = encode_object({"payer": payer})
        return self._record(Charge, self._post(path, body, repeatable=False))

    @Operation
    def fund(self, *, to: str, amount: Amount) -> Steps[Transfer]:
        """Issue money to the account `to`."""
        body = encode_object({"to": to, "amount": parse_amount(amount)})
        return self._record(Transfer, self._post("/sandbox/fund", body, repeatable=False))

    @ListOperation
    def mail(self, *, to: str | None = None, page_size: int = 100) -> PageSteps[SandboxMail]:
        """Iterate over the messages to this email, or to everyone, newest first."""
        return self._pages(SandboxMail, "/sandbox/mail", {"to": to, "limit": page_size})

    @Operation
    def start_rehearsal(self, rehearsal: str) -> Steps[Rehearsal]:
        """Start a rehearsal, such as `answer-lost-after-commit`: calls of the app now go wrong."""
        body = encode_object({"rehearsal": rehearsal})
        return self._record(Rehearsal, self._post("/sandbox/lab", body, repeatable=False))

    @Operation
    def get_rehearsal(self, rehearsal_id: str) -> Steps[Rehearsal]:
        """Return the rehearsal with its grades so far."""
        return self._read(Rehearsal, f"/sandbox/lab/{segment(rehearsal_id)}")

    @Operation
    def finish_rehearsal(self, rehearsal_id: str) -> Steps[Rehearsal]:
        """End the rehearsal, and return its grades."""
        return self._record(Rehearsal, self._post(f"/sandbox/lab/{segment(rehearsal_id)}/finish"))
