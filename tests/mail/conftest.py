"""An outbox in a fresh database, and a mail server that receives what is in it."""

from collections.abc import Callable, Iterator

import pytest

from ousel.database.port import Database
from ousel.kernel.mail_servers import mail_server_at
from ousel.kernel.observers import NO_OBSERVER
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.mail.sender import MailSender
from ousel.mail.smtp import SmtpClient
from tests.support.clock import ManualClock
from tests.support.mail import MailServer

SENDER = "Ousel <pay@ousel.example>"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """A mail server that runs."""
    with MailServer() as running:
        yield running


@pytest.fixture
def outbox(database: Database, clock: ManualClock, mail_server: MailServer) -> Outbox:
    """The outbox of a live server."""
    return Outbox(database, clock, Settings(mail_url=mail_server.url, mail_from=SENDER))


@pytest.fixture
def new_sender(
    database: Database, clock: ManualClock, mail_server: MailServer
) -> Callable[[], MailSender]:
    """Makes senders, as each process has one."""

    def make() -> MailSender:
        client = SmtpClient(mail_server_at(mail_server.url), SENDER)
        return MailSender(database, clock, client, NO_OBSERVER)

    return make


@pytest.fixture
def sender(new_sender: Callable[[], MailSender]) -> MailSender:
    """The sender of one process."""
    return new_sender()
