"""People who sign up and confirm their emails, and what they find in their mailboxes."""

import asyncio

import msgspec

from ousel.accounts.service import AccountService, IdentifierInUse, NewHolder
from ousel.database.port import Database
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Movement
from ousel.mail.outbox import Outbox
from ousel.people.email_confirmation import EmailConfirmationService
from ousel.people.session_lookup import SessionLookup
from ousel.people.sign_in import SignInService
from tests.ledger.examples import posting
from tests.people.members import HOME, OFFICE
from tests.support.clock import ManualClock
from tests.support.mail import code_in, link_in
from tests.support.visitor import PASSWORD

EMAIL = "ada@example.com"


class People(msgspec.Struct, frozen=True):
    """People who sign up and confirm their emails, and what they find in their mailboxes."""

    database: Database
    clock: ManualClock
    sign_in: SignInService
    emails: EmailConfirmationService
    outbox: Outbox

    async def sign_up(self, username: str, email: str = EMAIL) -> str:
        """Open an account, and return its id."""
        self.clock.advance(seconds=1)  # messages are sorted by time
        holder = NewHolder(username=username, email=email, display_name=username.title())
        opened = await self.sign_in.sign_up(holder, PASSWORD, HOME)
        found = await SessionLookup(self.database, self.clock).person(opened.secret)
        assert found is not None
        return found.account_id

    async def send(self, account_id: str) -> None:
        """Ask for another message."""
        self.clock.advance(seconds=1)
        await self.emails.send(account_id, HOME)

    async def mail(self, email: str = EMAIL) -> list[str]:
        """Return the texts of the messages to an address, newest first."""
        return [each.text for each in await self.outbox.newest(email)]

    async def code(self, email: str = EMAIL) -> str:
        """Return the code in the newest message to an address."""
        return code_in((await self.mail(email))[0])

    async def link(self, email: str = EMAIL) -> str:
        """Return the token of the link in the newest message to an address."""
        return link_in((await self.mail(email))[0]).partition("token=")[2]

    async def owner(self, email: str = EMAIL) -> str | None:
        """Return the id of the account that the email finds, if any."""
        try:
            found = await AccountService(self.database, self.clock).find(email, param="to")
        except AccountNotFound:
            return None
        return found.id

    async def confirm(self, account_id: str, email: str = EMAIL) -> None:
        """Confirm the email with the code in the newest message."""
        self.clock.advance(seconds=1)
        await self.emails.confirm_with_code(account_id, await self.code(email), HOME)


async def race(people: People, payer_id: str, email: str, number: int) -> None:
    """Let two accounts confirm an email at once, while transfers to it are sent."""
    first = await people.sign_up(f"first_{number}", email)
    first_link = await people.link(email)
    second = await people.sign_up(f"second_{number}", email)
    second_code = await people.code(email)
    queue = PostingQueue(people.database, people.clock, queue_limit=100)
    sent = [
        asyncio.create_task(queue.post(posting(payer_id, email, 1, key=f"{number}-{index}")))
        for index in range(4)
    ]
    confirmations = [
        people.emails.confirm_with_link(first_link, HOME),
        people.emails.confirm_with_code(second, second_code, OFFICE),
    ][:: (-1) ** number]
    results = await asyncio.gather(*confirmations, return_exceptions=True)
    outcomes = [(await each).outcome for each in sent]
    outcomes.append((await queue.post(posting(payer_id, email, 1, key=f"{number}-end"))).outcome)

    assert [type(each) for each in results if isinstance(each, BaseException)] == [IdentifierInUse]
    winner = await people.owner(email)
    assert winner in {first, second}
    reached = {each.credit.account_id for each in outcomes if isinstance(each, Movement)}
    assert reached == {winner}
    states = [(await people.emails.state(each)).email.is_confirmed for each in (first, second)]
    assert sorted(states) == [False, True]
    await queue.close()
