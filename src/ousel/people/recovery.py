"""Account recovery: links that set a new password, sent by mail or issued by the operator."""

from typing import Final

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account
from ousel.mail.outbox import Outbox
from ousel.people import letters, rules
from ousel.people.attempts import AttemptCounter
from ousel.people.audit import BY_OPERATOR, EventSource
from ousel.people.notices import EventNotices
from ousel.people.password_change import replace_password
from ousel.people.passwords import PasswordService
from ousel.people.second_factor import has_second_factor, remove_second_factors
from ousel.resets import service as resets
from ousel.resets.rules import LinkKind

PATH: Final = "/reset"

_ALL_FACTORS: Final = "every authenticator app, passkey and recovery code"
_LINK_NAMES: Final[dict[LinkKind, str]] = {
    "mail": "a link by mail",
    "operator": "a link from the operator",
}


class ResetLinkEnded(Refusal):
    """The link that sets a new password was used before, was replaced, or is too old."""

    status = 400
    code = "reset_link_ended"
    title = "The link no longer works"
    cure = "Ask for a new link."


class ResetTarget(msgspec.Struct, frozen=True):
    """The account whose password a link sets, and whether it also removes all second factors."""

    username: str
    removes_factor: bool


class RecoveryService:
    """Sends links to people who have forgotten their password, and lets the links set a new one."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        attempts: AttemptCounter,
        outbox: Outbox,
        notices: EventNotices,
        passwords: PasswordService,
    ) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock
        self._attempts = attempts
        self._outbox = outbox
        self._notices = notices
        self._passwords = passwords
        self.accepts_mail = outbox.accepts_mail

    async def send_link(self, identifier: str, source: EventSource) -> None:
        """Send a link to the confirmed email of the account that has this identifier.

        If there is none, or too many links were sent for it, nothing is sent. The same statements
        run in all these cases, so neither the answer nor its time reveals which of them it was.
        """
        name = identifier.strip()

        async def work(transaction: Transaction) -> None:
            await self._attempts.count_mail_from(transaction, source)
            account_id = await _find_account_id(transaction, name) or rules.decoy_id(name)
            is_allowed = await self._attempts.may_send_reset(transaction, account_id, source)
            email = (await accounts.lock_holder(transaction, account_id)).email
            found = await accounts.accounts_by_id(transaction, [account_id])
            username = found[account_id].username if found else ""
            is_sent = is_allowed and email.is_confirmed
            # A link that is not sent must not replace the link that the holder has received.
            link_account_id = account_id if is_sent else rules.decoy_id(name)
            secret = await resets.issue_link(transaction, link_account_id, "mail", self._clock)
            letter = letters.reset_letter(username, link_address(self._outbox, secret))
            if is_sent:
                await self._outbox.add(transaction, account_id, email.address, letter)
            else:
                await self._outbox.add_decoy(transaction, account_id, letter)

        await self._database.write(work)

    async def find_link(self, secret: str, source: EventSource) -> ResetTarget:
        """Return what a link does, or raise ResetLinkEnded."""

        async def read(transaction: Transaction) -> ResetTarget | None:
            link = await resets.find_link(transaction, secret, self._clock)
            if link is None:
                return None
            account = await accounts.account_by_id(transaction, link.account_id)
            return ResetTarget(account.username, link.kind == "operator")

        target = await self._database.read(read)
        if target is None:
            await self._database.write(
                lambda transaction: self._attempts.count_wrong_link(transaction, source)
            )
            raise _link_ended()
        return target

    async def set_password(self, secret: str, password: str, source: EventSource) -> None:
        """Set a new password by a link, and end all sessions.

        The operator's link also removes all second factors. After a link by mail, an account that
        has one still knows its browsers. Otherwise the holder would share the limit on wrong codes
        with strangers, who may have used it up.
        """
        await self.find_link(secret, source)  # else anyone could make the server hash passwords
        rules.parse_password(password, param="new_password")
        hashed = await self._passwords.hash_password(password, source.ip_address)

        async def work(transaction: Transaction) -> bool:
            link = await resets.find_link(transaction, secret, self._clock)
            if link is None:
                return False
            account_id = link.account_id
            # Whatever else issues, uses or ends links of the account waits for this lock.
            await accounts.lock_holder(transaction, account_id)
            if not await resets.use_link(transaction, link):
                return False
            has_factor = await has_second_factor(transaction, account_id)
            await replace_password(
                transaction,
                account_id,
                hashed,
                session_hash="",
                browser_hash=source.browser_hash,
                keeps_browsers=has_factor and link.kind == "mail",
            )
            await self._notices.record(
                transaction, account_id, "password_reset", source, _LINK_NAMES[link.kind]
            )
            if has_factor and link.kind == "operator":
                await remove_second_factors(transaction, account_id)
                await self._notices.record(
                    transaction, account_id, "second_factor_turned_off", source, _ALL_FACTORS
                )
            return True

        if not await self._database.write(work):
            raise _link_ended()


class OperatorRecovery:
    """Gives out links for people who have lost their email or their second factor."""

    def __init__(self, database: Database, clock: Clock, outbox: Outbox) -> None:
        """Work on this database, and notify people by this outbox."""
        self._database = database
        self._clock = clock
        self._outbox = outbox
        self._notices = EventNotices(outbox, clock)

    async def find(self, identifier: str) -> Account:
        """Return the account that has this identifier."""
        return await self._database.read(
            lambda transaction: accounts.find_account(transaction, identifier, param="identifier")
        )

    async def issue_link(self, account: Account) -> str:
        """Return a link that sets a new password and removes all second factors."""

        async def work(transaction: Transaction) -> str:
            await accounts.lock_holder(transaction, account.id)
            await resets.end_links_of(transaction, account.id)
            secret = await resets.issue_link(transaction, account.id, "operator", self._clock)
            await self._notices.record(transaction, account.id, "recovery_link_issued", BY_OPERATOR)
            return link_address(self._outbox, secret)

        return await self._database.write(work)


def link_address(outbox: Outbox, secret: str) -> str:
    """Return the address of the page on which this link sets a new password."""
    return f"{outbox.portal_url}{PATH}?token={secret}"


async def _find_account_id(transaction: Transaction, name: str) -> str | None:
    """Return the id of the account that has this name; a username may lack its @."""
    for identifier in (name, f"@{name}"):
        try:
            return await accounts.find_account_id(transaction, identifier, param="identifier")
        except AccountNotFound:  # it is malformed
            continue
    return None


def _link_ended() -> ResetLinkEnded:
    return ResetLinkEnded(
        "This link was used before, was replaced by a newer one, or is more than an hour old."
    )
