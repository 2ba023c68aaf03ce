"""Confirming and changing the email of an account."""

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts.rules import HolderEmail, parse_email
from ousel.accounts.service import IdentifierInUse
from ousel.database.port import Database, Transaction
from ousel.emails.rules import PendingConfirmation
from ousel.emails.service import (
    ConfirmationResult,
    EmailConfirmed,
    EmailInUse,
    NoValidConfirmation,
    PendingConfirmations,
    WrongConfirmationCode,
)
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.people.attempts import AttemptCounter
from ousel.people.audit import EventKind, EventSource, record_event
from ousel.people.password_check import PasswordCheck
from ousel.resets import service as resets


class EmailLinkEnded(Refusal):
    """The link that confirms an email was used before, was replaced, or is too old."""

    status = 400
    code = "email_link_ended"
    title = "The link no longer works"
    cure = "Sign in, and ask for a new message."


class NoMail(Refusal):
    """The server sends no mail, so nobody can confirm an email."""

    status = 400
    code = "no_mail"
    title = "This server sends no mail"
    cure = "Ask the operator of the server to confirm the email."


class EmailState(msgspec.Struct, frozen=True):
    """An account's email, and the one that waits to be confirmed."""

    email: HolderEmail
    pending: PendingConfirmation | None
    accepts_mail: bool

    @property
    def to_confirm(self) -> str | None:
        """The email that the next message is sent to, or None if there is nothing to confirm."""
        wanted = self.email.address if self.pending is None else self.pending.email
        return None if self.email.is_confirmed and wanted == self.email.address else wanted


class LinkTarget(msgspec.Struct, frozen=True):
    """The email that a link confirms, and the account that will have it."""

    email: str
    username: str


class EmailConfirmationService:
    """Sends links and codes, accepts them, and changes emails."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        attempts: AttemptCounter,
        confirmations: PendingConfirmations,
        password_check: PasswordCheck,
    ) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock
        self._attempts = attempts
        self._confirmations = confirmations
        self._password_check = password_check

    async def state(self, account_id: str) -> EmailState:
        """Return the account's email and the one that waits to be confirmed."""
        return await self._database.read(lambda transaction: self._state(transaction, account_id))

    async def send(self, account_id: str, source: EventSource) -> None:
        """Send another message to the email that waits to be confirmed."""

        async def work(transaction: Transaction) -> None:
            self._require_mail()
            # A new password ends the confirmation that it finds. Without the lock it could miss the
            # one that is started here.
            await accounts.lock_holder(transaction, account_id)
            email = (await self._state(transaction, account_id)).to_confirm
            if email is None:
                raise InvalidField("Your email is confirmed already.", param="email")
            await self._attempts.count_mail(transaction, account_id, email, source)
            await self._confirmations.start(transaction, account_id, email)

        await self._database.write(work)

    async def change(
        self, account_id: str, password: str, new_email: str, source: EventSource
    ) -> None:
        """Send a message to a new email, which replaces the old one when it is confirmed."""
        email = parse_email(new_email)
        self._require_mail()
        compared = await self._password_check.compare(account_id, password, source)

        async def work(transaction: Transaction) -> bool:
            if not await self._password_check.confirm(transaction, compared, "change your email"):
                return False
            current = await accounts.email_of(transaction, account_id)
            if current.is_confirmed and current.address == email:
                raise InvalidField("This is your email already.", param="email")
            await self._attempts.count_mail(transaction, account_id, email, source)
            await self._confirmations.start(transaction, account_id, email)
            await record_event(
                transaction, account_id, "email_change_requested", source, self._clock, email
            )
            return True

        if not await self._database.write(work):
            raise InvalidField("This is not your password.", param="password")

    async def confirm_with_code(self, account_id: str, code: str, source: EventSource) -> None:
        """Confirm the account's email by the code that was sent to it."""

        async def work(transaction: Transaction) -> ConfirmationResult:
            await self._attempts.count_email_code(transaction, account_id)
            result = await self._confirmations.use_code(transaction, account_id, code)
            if not isinstance(result, WrongConfirmationCode):
                await self._attempts.uncount_email_code(transaction, account_id)
            await self._record(transaction, result, source)
            return result

        match await self._database.write(work):
            case WrongConfirmationCode(codes_left=0):
                raise InvalidField(
                    "This code is not right, and was the last try. Ask for a new message.",
                    param="code",
                )
            case WrongConfirmationCode(codes_left=left):
                raise InvalidField(f"This code is not right. Tries left: {left}.", param="code")
            case NoValidConfirmation():
                raise InvalidField(
                    "The code is no longer valid. Ask for a new message.", param="code"
                )
            case EmailInUse(email=email):
                raise IdentifierInUse(_in_use(email), param="code")
            case EmailConfirmed():
                pass

    async def find_link(self, link: str, source: EventSource) -> LinkTarget:
        """Return what a link confirms, or raise EmailLinkEnded."""

        async def read(transaction: Transaction) -> LinkTarget | None:
            pending = await self._confirmations.find_by_link(transaction, link)
            if pending is None:
                return None
            account = await accounts.account_by_id(transaction, pending.account_id)
            return LinkTarget(pending.email, account.username)

        target = await self._database.read(read)
        if target is None:
            await self._database.write(
                lambda transaction: self._attempts.count_wrong_link(transaction, source)
            )
            raise _link_ended()
        return target

    async def confirm_with_link(self, link: str, source: EventSource) -> str:
        """Confirm an email by the link that was sent to it; return the id of its account."""

        async def work(transaction: Transaction) -> ConfirmationResult:
            result = await self._confirmations.use_link(transaction, link)
            if isinstance(result, NoValidConfirmation):
                await self._attempts.count_wrong_link(transaction, source)
            await self._record(transaction, result, source)
            return result

        match await self._database.write(work):
            case EmailInUse(email=email):
                raise IdentifierInUse(_in_use(email))
            case EmailConfirmed(account_id=account_id):
                return account_id
            case _:
                raise _link_ended()

    async def _state(self, transaction: Transaction, account_id: str) -> EmailState:
        email = await accounts.email_of(transaction, account_id)
        pending = await self._confirmations.find(transaction, account_id)
        return EmailState(email, pending, self._confirmations.accepts_mail)

    async def _record(
        self, transaction: Transaction, result: ConfirmationResult, source: EventSource
    ) -> None:
        if isinstance(result, EmailConfirmed):
            # Reset links may have been sent to the old email, so end them.
            await resets.end_links_of(transaction, result.account_id)
            before = result.before
            is_changed = before.is_confirmed and before.address != result.email
            kind: EventKind = "email_changed" if is_changed else "email_confirmed"
            await record_event(
                transaction, result.account_id, kind, source, self._clock, result.email
            )

    def _require_mail(self) -> None:
        if not self._confirmations.accepts_mail:
            raise NoMail("This server sends no mail. Ask its operator to confirm your email.")


def _in_use(email: str) -> str:
    return f"{email} belongs to another account. Change the email of that account first."


def _link_ended() -> EmailLinkEnded:
    return EmailLinkEnded(
        "This link was used before, was replaced by a newer one, or is more than 30 minutes old."
    )
