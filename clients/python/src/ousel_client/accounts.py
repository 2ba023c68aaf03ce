"""Accounts, found by any of their identifiers."""

from ousel_client.exchange import Steps, segment
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.records import Account


class Accounts(Resource[Driver]):
    """Finds accounts."""

    @Operation
    def get(self, identifier: str) -> Steps[Account]:
        """Return the account with this @username, account number or email."""
        return self._read(Account, f"/accounts/{segment(identifier)}")
