"""Starting and using confirmations of emails, in transactions that the callers open."""

import secrets
from typing import Final

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts.rules import HolderEmail
from ousel.accounts.service import IdentifierInUse
from ousel.database.port import Transaction
from ousel.emails import letters, rules, store
from ousel.emails.rules import PendingConfirmation
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.ids import is_secret, new_secret, secret_hash
from ousel.mail.outbox import Outbox

PATH: Final = "/verify-email"


class EmailConfirmed(msgspec.Struct, frozen=True):
    """The email is confirmed, and identifies the account from now on."""

    account_id: str
    email: str
    before: HolderEmail


class EmailInUse(msgspec.Struct, frozen=True):
    """Another account has already confirmed the email."""

    account_id: str
    email: str


class WrongConfirmationCode(msgspec.Struct, frozen=True):
    """The code is not right."""

    codes_left: int


class NoValidConfirmation(msgspec.Struct, frozen=True):
    """The account has no pending confirmation that is still valid."""


ConfirmationResult = EmailConfirmed | EmailInUse | WrongConfirmationCode | NoValidConfirmation


class PendingConfirmations:
    """Starts confirmations by mail, and lets links and codes complete them."""

    def __init__(self, outbox: Outbox, clock: Clock, portal_url: str) -> None:
        """Send mail by this outbox; its links lead to this portal."""
        self._outbox = outbox
        self._clock = clock
        self._portal_url = portal_url
        self.accepts_mail = outbox.accepts_mail

    async def start(self, transaction: Transaction, account_id: str, email: str) -> None:
        """Send a link and a code to the email; those that were sent before no longer work.

        If the email names another account, its owner gets another message instead. The
        caller does not learn which message was sent.
        """
        if not self.accepts_mail:
            return
        username = (await accounts.account_by_id(transaction, account_id)).username
        code = f"{secrets.randbelow(10**rules.CODE_DIGITS):0{rules.CODE_DIGITS}d}"
        link, now = new_secret(rules.LINK_PREFIX), self._clock()
        pending = PendingConfirmation(
            account_id=account_id,
            email=email,
            link_hash=secret_hash(link),
            code_hash=rules.code_hash(account_id, code),
            wrong_codes=0,
            created_at=now,
            expires_at=now + rules.CONFIRMATION_SECONDS * MICROS_PER_SECOND,
        )
        await store.replace_confirmation(transaction, pending)
        owner = await accounts.find_account_id(transaction, email, param="email")
        if owner is None or owner == account_id:
            address = f"{self._portal_url}{PATH}?token={link}"
            letter = letters.confirmation_letter(username, code, address)
        else:
            letter = letters.in_use_letter(username, self._portal_url)
        await self._outbox.add(transaction, account_id, email, letter)

    async def find(self, transaction: Transaction, account_id: str) -> PendingConfirmation | None:
        """Return the account's pending confirmation if it is still valid."""
        pending = await store.confirmation_of(transaction, account_id)
        return pending if pending is not None and pending.is_valid_at(self._clock()) else None

    async def find_by_link(self, transaction: Transaction, link: str) -> PendingConfirmation | None:
        """Return the pending confirmation that this link belongs to, if it is still valid."""
        if not is_secret(link, rules.LINK_PREFIX):
            return None
        pending = await store.confirmation_by_link(transaction, secret_hash(link))
        return pending if pending is not None and pending.is_valid_at(self._clock()) else None

    async def use_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> ConfirmationResult:
        """Confirm the account's email by its code, or count a wrong one."""
        pending = await _lock_confirmation(transaction, account_id)
        verdict = rules.judge_code(pending, code, self._clock())
        if pending is None or verdict == "ended":
            return NoValidConfirmation()
        if verdict == "wrong":
            await store.count_wrong_code(transaction, account_id)
            return WrongConfirmationCode(rules.WRONG_CODES_MAX - pending.wrong_codes - 1)
        return await self._complete(transaction, pending)

    async def use_link(self, transaction: Transaction, link: str) -> ConfirmationResult:
        """Confirm an email by its link."""
        found = await self.find_by_link(transaction, link)
        if found is None:
            return NoValidConfirmation()
        # Before the row is locked, another transaction may use or replace the link.
        pending = await _lock_confirmation(transaction, found.account_id)
        if pending is None or pending.link_hash != found.link_hash:
            return NoValidConfirmation()
        return await self._complete(transaction, pending)

    async def _complete(
        self, transaction: Transaction, pending: PendingConfirmation
    ) -> ConfirmationResult:
        """Give the email to the account, unless another one has it; end the confirmation."""
        account_id, email = pending.account_id, pending.email
        await store.delete_confirmation(transaction, account_id)
        try:
            before = await accounts.confirm_email(transaction, account_id, email)
        except IdentifierInUse:
            return EmailInUse(account_id, email)
        if before.is_confirmed and before.address != email:
            username = (await accounts.account_by_id(transaction, account_id)).username
            letter = letters.changed_letter(username, self._portal_url)
            await self._outbox.add(transaction, account_id, before.address, letter)
        return EmailConfirmed(account_id, email, before)

    async def delete_expired(self, transaction: Transaction, before: int, limit: int) -> int:
        """Delete up to `limit` pending confirmations that expired before this moment."""
        return await store.delete_expired(transaction, before, limit)


async def _lock_confirmation(
    transaction: Transaction, account_id: str
) -> PendingConfirmation | None:
    """Lock the account's holder first, as a new password does, so that there is no deadlock."""
    await accounts.lock_holder(transaction, account_id)
    return await store.lock_confirmation(transaction, account_id)


async def end_confirmation(transaction: Transaction, account_id: str) -> None:
    """End the account's pending confirmation, if any."""
    await store.delete_confirmation(transaction, account_id)
