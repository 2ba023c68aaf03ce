"""Replacing a password, which ends other sessions and what was begun with the old password."""

from ousel.accounts import service as accounts
from ousel.database.port import Transaction
from ousel.emails.service import end_confirmation
from ousel.people import factor_store, store


async def replace_password(
    transaction: Transaction,
    account_id: str,
    hashed: str,
    *,
    session_hash: str,
    browser_hash: str,
    keeps_browsers: bool = False,
) -> None:
    """Store a new password, and shut out everybody else who used the old one.

    All sessions but this one end, all browsers but this one are forgotten unless the caller keeps
    them, a second factor that was only proposed is removed, and so is an email that was not
    confirmed yet. The caller has locked the password. The caller also records an audit event. A
    passkey sign-in looks for such an event when it finishes, and is refused if there is one since
    it began.
    """
    await accounts.set_password_hash(transaction, account_id, hashed)
    await store.end_other_sessions(transaction, account_id, session_hash)
    if not keeps_browsers:
        await store.forget_other_browsers(transaction, account_id, browser_hash)
    await factor_store.remove_proposed_authenticator_app(transaction, account_id)
    await end_confirmation(transaction, account_id)
