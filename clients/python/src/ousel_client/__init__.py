"""The Python client of Ousel.

`Client` and `AsyncClient` do what a partner key allows. `UserClient` and `AsyncUserClient` read
what a user token allows. Every exception that they raise is an `OuselError`, except ValueError and
TypeError for wrong arguments, and ImportError if a receipt is checked without the extra `receipts`.
`ousel_client.refusals` has the classes for the error codes of the API.
"""

from ousel_client.clients import AsyncClient, AsyncUserClient, Client, UserClient
from ousel_client.connect import ProofKey
from ousel_client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Missing,
    NotAuthenticated,
    OuselError,
    ReturnNotTrusted,
    ServerError,
    Throttled,
    UnexpectedAnswer,
    WaitTimedOut,
)
from ousel_client.following import AsyncFollow, Follow
from ousel_client.intents import TransferIntent
from ousel_client.receipts import Receipt, ReceiptProof, ReceiptRefused
from ousel_client.records import (
    Account,
    App,
    Balance,
    Charge,
    Holder,
    OwnAccount,
    Party,
    Payer,
    Rehearsal,
    RehearsalGrade,
    SandboxMail,
    SandboxTime,
    Transfer,
    UserToken,
)
from ousel_client.refusals import IdempotencyConflict
from ousel_client.retrying import RetryPolicy

__all__ = [
    "Account",
    "ApiError",
    "App",
    "AsyncClient",
    "AsyncFollow",
    "AsyncUserClient",
    "BadRequest",
    "Balance",
    "Charge",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Follow",
    "Forbidden",
    "Holder",
    "IdempotencyConflict",
    "Missing",
    "NotAuthenticated",
    "OuselError",
    "OwnAccount",
    "Party",
    "Payer",
    "ProofKey",
    "Receipt",
    "ReceiptProof",
    "ReceiptRefused",
    "Rehearsal",
    "RehearsalGrade",
    "RetryPolicy",
    "ReturnNotTrusted",
    "SandboxMail",
    "SandboxTime",
    "ServerError",
    "Throttled",
    "Transfer",
    "TransferIntent",
    "UnexpectedAnswer",
    "UserClient",
    "UserToken",
    "WaitTimedOut",
]
