"""The refusals of the ledger."""

from ousel.kernel.errors import Refusal


class AccountNotFound(Refusal):
    """No account has that username, account number or email."""

    status = 404
    code = "account_not_found"
    title = "There is no such account"
    cure = "Look the account up with GET /accounts/:identifier first; check the spelling."


class TransferNotFound(Refusal):
    """The account has no transfer with this id."""

    status = 404
    code = "transfer_not_found"
    title = "There is no such transfer"
    cure = "Check the id; a key sees only the transfers of its own account."

    def __init__(self) -> None:
        """Use one detail for unknown ids and other accounts' transfers, to reveal nothing."""
        super().__init__("There is no transfer with this id.")


class SameAccount(Refusal):
    """The recipient is the sender."""

    status = 400
    code = "same_account"
    title = "The recipient is the sender"
    cure = "Name another account in `to`."


class AccountFrozen(Refusal):
    """The sender's or the recipient's account is frozen: no money leaves it or reaches it."""

    status = 400
    code = "account_frozen"
    title = "The account is frozen"
    cure = "Ask the operator why the account is frozen. Do not retry before it is active again."


class InsufficientBalance(Refusal):
    """The amount is more than the balance of the account that pays."""

    status = 400
    code = "insufficient_balance"
    title = "The balance is not sufficient"
    cure = "Send less, or retry when the account has enough money."


class BalanceLimitReached(Refusal):
    """The recipient's balance would exceed the limit of an account."""

    status = 400
    code = "balance_limit_reached"
    title = "The recipient's balance would exceed its limit"
    cure = "Send less, or to another account."


class IdempotencyConflict(Refusal):
    """The idempotency key was used before, for another request."""

    status = 409
    code = "idempotency_conflict"
    title = "The idempotency key belongs to another request"
    cure = (
        "Use one key for one intent: a new intent needs a new key. `transfer_id` or `charge_id` "
        "names what the key was used for."
    )


class QueueFull(Refusal):
    """More transfers or charges are waiting to be written than the server allows."""

    status = 503
    code = "queue_full"
    title = "Too many transfers or charges are waiting"
    cure = "Retry with exponential backoff, keeping the Idempotency-Key."


class EntryAheadOfClock(Refusal):
    """The sender's or the recipient's last entry is dated more than a minute in the future."""

    status = 503
    code = "entry_ahead_of_clock"
    title = "An account's last entry is dated in the future"
    cure = (
        "Nothing moved. Retry later with the same Idempotency-Key; if this goes on, tell the "
        "operator, who must correct a clock."
    )


class PostingRefused(Refusal):
    """The database cannot store a value of this transfer."""

    status = 400
    code = "posting_refused"
    title = "The transfer cannot be written"
    cure = "Check the note and the other texts of the request for unusual characters."
