"""Refusals of the sealed log."""

from ousel.kernel.errors import Refusal


class ReceiptNotReady(Refusal):
    """The transfer is not sealed yet, which takes about a second, or the server has no log key."""

    status = 404
    code = "receipt_not_ready"
    title = "The receipt is not ready"
    cure = "Retry after `Retry-After` seconds, or send `Prefer: wait=10`."
    ends_soon = True
