"""The sandbox: time, payers and money for tests. A live server answers NotFound to all of it.

None of these carries an idempotency key, so a request whose answer was lost is not repeated.
"""

from ousel_client.amounts import Amount, exact, json_object
from ousel_client.exchange import Steps, segment
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.records import Charge, SandboxTime, Transfer


class Sandbox(Resource[Driver]):
    """Does what in earnest takes time, people or the operator."""

    @Operation
    def advance_clock(self, seconds: int) -> Steps[SandboxTime]:
        """Move the server's clock on."""
        body = json_object({"advance": seconds})
        return self._record(SandboxTime, self._post("/sandbox/clock", body, repeatable=False))

    @Operation
    def pay(self, charge_id: str, *, payer: str) -> Steps[Charge]:
        """Pay a charge from the balance of this account."""
        path = f"/sandbox/charges/{segment(charge_id)}/pay"
        body = json_object({"payer": payer})
        return self._record(Charge, self._post(path, body, repeatable=False))

    @Operation
    def fund(self, *, to: str, amount: Amount) -> Steps[Transfer]:
        """Issue money to this account."""
        body = json_object({"to": to, "amount": exact(amount)})
        return self._record(Transfer, self._post("/sandbox/fund", body, repeatable=False))
