"""Helpers that request and use reset links for Ada's account."""

import msgspec

from ousel.mail.outbox import Outbox
from ousel.people.audit import EventSource
from ousel.people.recovery import OperatorRecovery, RecoveryService
from tests.people.mailboxes import EMAIL
from tests.people.members import HOME, OFFICE
from tests.support.clock import ManualClock
from tests.support.mail import link_in

NEW_PASSWORD = "a better horse battery"


class Recovery(msgspec.Struct, frozen=True):
    """Ada's way back in: the services, and her mailbox."""

    service: RecoveryService
    operator: OperatorRecovery
    outbox: Outbox
    clock: ManualClock

    async def ask(self, name: str = "@ada", source: EventSource = HOME) -> None:
        """Ask for a link."""
        self.clock.advance(seconds=1)  # messages are sorted by time
        await self.service.send_link(name, source)

    async def mail(self) -> list[str]:
        """Return the links in Ada's mailbox, newest first."""
        texts = [each.text for each in await self.outbox.newest(EMAIL)]
        return [_token(link_in(text)) for text in texts if "/reset?token=" in text]

    async def link(self, name: str = "@ada") -> str:
        """Ask for a link, and return it."""
        await self.ask(name)
        return (await self.mail())[0]

    async def operator_link(self) -> str:
        """Return a link that the operator has issued."""
        return _token(await self.operator.issue_link(await self.operator.find("@ada")))

    async def use(self, link: str, password: str = NEW_PASSWORD) -> None:
        """Set a new password by a link."""
        self.clock.advance(seconds=1)
        await self.service.set_password(link, password, OFFICE)


def _token(link: str) -> str:
    return link.partition("token=")[2]
