"""The refusals about charges."""

from ousel.kernel.errors import Refusal


class ChargeNotFound(Refusal):
    """The account has no charge with this id."""

    status = 404
    code = "charge_not_found"
    title = "There is no such charge"
    cure = "Check the id; a key sees only the charges of its own account."

    def __init__(self) -> None:
        """Use one detail for unknown ids and other accounts' charges, to reveal nothing."""
        super().__init__("There is no charge with this id.")


class ChargeNotCancelable(Refusal):
    """The charge is paid, canceled or expired, and these statuses are final."""

    status = 400
    code = "charge_not_cancelable"
    title = "The charge cannot be canceled"
    cure = "Read `charge_status`, which no longer changes."

    def __init__(self, charge_id: str, status: str) -> None:
        """Name the status of the charge."""
        super().__init__(
            f"Charge {charge_id} is {status}; only a created charge can be canceled.",
            members={"charge_id": charge_id, "charge_status": status},
        )


class ChargeNotPayable(Refusal):
    """The charge is paid, canceled or expired, and these statuses are final."""

    status = 400
    code = "charge_not_payable"
    title = "The charge cannot be paid"
    cure = "Read `charge_status`. It is final, so ask for a new charge."

    def __init__(self, charge_id: str, status: str) -> None:
        """Name the status of the charge."""
        super().__init__(
            f"Charge {charge_id} is {status}; only a created charge can be paid.",
            members={"charge_id": charge_id, "charge_status": status},
        )


class OwnCharge(Refusal):
    """The payer is the account that asks for the payment."""

    status = 400
    code = "own_charge"
    title = "The charge is your own"
    cure = "Pay with another account than the one that created the charge."

    def __init__(self) -> None:
        """Use the same detail for every charge."""
        super().__init__("An account cannot pay its own charge.")


class ReceiptNotFound(Refusal):
    """The charge is not paid, or the person is neither its payer nor its recipient."""

    status = 404
    code = "receipt_not_found"
    title = "There is no such receipt"
    cure = "Sign in as the payer or the recipient."

    def __init__(self) -> None:
        """Use one detail for unpaid charges and other people's payments, to reveal nothing."""
        super().__init__("You have no receipt of this payment.")
