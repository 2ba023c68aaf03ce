"""Audit events: what was done to an account, when, from where and by which device."""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.ids import new_id
from ousel.people import store
from ousel.people.rules import AuditEvent, device_name

EventKind = Literal[
    "signed_up",
    "signed_in",
    "sign_in_failed",
    "signed_out",
    "session_ended",
    "password_changed",
    "password_reset",
    "recovery_link_issued",
    "second_factor_turned_on",
    "second_factor_turned_off",
    "recovery_code_used",
    "passkey_added",
    "passkey_renamed",
    "passkey_removed",
    "passkey_refused",
    "email_confirmed",
    "email_change_requested",
    "email_changed",
    "app_created",
    "app_renamed",
    "app_deleted",
    "key_issued",
    "key_rotated",
    "key_revoked",
    "redirect_uri_added",
    "redirect_uri_removed",
    "origin_added",
    "origin_removed",
    "app_connected",
    "app_disconnected",
]


class EventSource(msgspec.Struct, frozen=True):
    """Where an action came from: a request, or the operator's command line."""

    ip_address: str
    device: str
    browser_hash: str = ""  # of a secret that only this browser has
    session_hash: str = ""  # empty if nobody is signed in
    by_operator: bool = False  # a separate field, because a request could forge a device


BY_OPERATOR: Final = EventSource(ip_address="", device="", by_operator=True)


async def record_event(
    transaction: Transaction,
    account_id: str,
    kind: EventKind,
    source: EventSource,
    clock: Callable[[], int],
    detail: str = "",
) -> None:
    """Record the event in the transaction that performs it."""
    event = AuditEvent(
        account_id=account_id,
        id=new_id("ev_", clock),
        kind=kind,
        detail=detail,
        ip_address=source.ip_address,
        device="Operator" if source.by_operator else device_name(source.device),
        created_at=clock(),
    )
    await store.add_event(transaction, event)


async def record_failed_sign_in(
    transaction: Transaction,
    account_id: str,
    what: str,
    source: EventSource,
    clock: Callable[[], int],
) -> None:
    """Record that a wrong password, code or passkey was sent."""
    await record_event(transaction, account_id, "sign_in_failed", source, clock, f"Wrong {what}")


async def record_decoy(transaction: Transaction, source: EventSource) -> None:
    """Do the work of `record_failed_sign_in` for a name without an account.

    The row has the oldest possible date, so the next sweep deletes it. It does not contain the
    name: somebody may have typed a password there.
    """
    await record_failed_sign_in(transaction, "none", "password", source, lambda: 0)
