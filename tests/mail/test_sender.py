"""Mail is sent once it is committed; no trouble of the mail server loses or repeats a message."""

import asyncio
from collections.abc import Callable

import pytest
from typing_extensions import override

from ousel.database.port import Database, Result, Transaction, Work
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.mail_servers import MailServer as Address
from ousel.kernel.mail_servers import mail_server_at
from ousel.kernel.observers import NO_OBSERVER
from ousel.mail import sender as sender_module
from ousel.mail import store
from ousel.mail.outbox import KEPT_DAYS, Outbox
from ousel.mail.rules import (
    PAUSE_SECONDS_MAX,
    REFUSED_ATTEMPTS_MAX,
    SENDING_DAYS_MAX,
    Letter,
    Mail,
    OutboxFigures,
)
from ousel.mail.sender import CLAIM_SECONDS, FAILURES_MAX, MailSender
from ousel.mail.smtp import NotSent, SmtpClient
from tests.mail.conftest import SENDER
from tests.support.clock import ManualClock
from tests.support.delegating_database import DelegatingDatabase
from tests.support.logs import captured_logs
from tests.support.mail import MailServer, Mood

LETTER = Letter(subject="Grüße, Ada", opening=("One line.", "Another line, with ü."), code="123456")


async def write(database: Database, outbox: Outbox, *recipients: str) -> None:
    """Write a message to each recipient, all in one transaction."""

    async def work(transaction: Transaction) -> None:
        for recipient in recipients:
            await outbox.add(transaction, "acct_1", recipient, LETTER)

    await database.write(work)


async def send_until_empty(sender: MailSender, outbox: Outbox, clock: ManualClock) -> None:
    """Let time pass and the sender work until nothing waits."""
    while (await outbox.figures()).waiting:
        await sender.send_due()
        clock.advance(seconds=PAUSE_SECONDS_MAX)


async def test_a_message_arrives_whole_and_leaves_the_outbox(
    database: Database, outbox: Outbox, sender: MailSender, mail_server: MailServer
) -> None:
    """It has a sender, a recipient, a date, an id, and both forms of its text."""
    await write(database, outbox, "ada@example.com")

    await sender.send_due()
    await sender.send_due()

    [message] = mail_server.accepted
    assert (message["From"], message["To"]) == (SENDER, "ada@example.com")
    assert message["Subject"] == "Grüße, Ada"
    assert message["Date"].datetime.year == 2026
    assert message["Message-ID"].startswith("<mail_")
    assert message["Message-ID"].endswith("@ousel.example>")
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert "Another line, with ü." in text.get_content()
    assert "<p>Another line, with ü.</p>" in html.get_content()
    assert await outbox.newest() == []


async def test_mail_of_a_transaction_that_was_rolled_back_is_not_sent(
    database: Database, outbox: Outbox, sender: MailSender, mail_server: MailServer
) -> None:
    """The message is written in the transaction that causes it."""

    async def fail(transaction: Transaction) -> None:
        await outbox.add(transaction, "acct_1", "ada@example.com", LETTER)
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        await database.write(fail)
    await sender.send_due()

    assert mail_server.offered == []


async def test_a_server_that_is_away_gets_its_mail_when_it_is_back(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
) -> None:
    """Nothing is lost meanwhile; the figures and the log say that mail waits, and why."""
    await write(database, outbox, "ada@example.com", "bob@example.com")
    mail_server.stop()
    with captured_logs() as logs:
        for _ in range(3):
            await sender.send_due()
            clock.advance(seconds=60)
    assert (await outbox.figures()).waiting == 2
    assert {(line["level"], line["event"]) for line in logs} == {
        ("warning", "mail could not be sent and will be tried again")
    }
    assert all("refused" in line["reason"] for line in logs)

    mail_server.start()
    await send_until_empty(sender, outbox, clock)

    assert sorted(str(each["To"]) for each in mail_server.accepted) == [
        "ada@example.com",
        "bob@example.com",
    ]


async def test_messages_that_are_refused_do_not_delay_the_others(
    database: Database, outbox: Outbox, sender: MailSender, mail_server: MailServer
) -> None:
    """One visitor may sign up with many addresses that cannot get mail."""
    await write(database, outbox, *(f"a{n},b@example.com" for n in range(FAILURES_MAX - 1)))
    await write(database, outbox, "ada@example.com")

    await sender.send_due()

    assert [str(each["To"]) for each in mail_server.accepted] == ["ada@example.com"]


async def test_a_message_that_cannot_be_handled_is_postponed(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault of ours is reported, and the others are sent before the message is tried again."""
    await write(database, outbox, "ada@example.com", "bob@example.com")
    send = SmtpClient.send

    async def fail_for_ada(client: SmtpClient, mail: Mail, seconds_max: float) -> None:
        if mail.recipient == "ada@example.com":
            raise KeyError(mail.id)
        await send(client, mail, seconds_max)

    monkeypatch.setattr(SmtpClient, "send", fail_for_ada)
    with pytest.raises(KeyError):
        await sender.send_due()
    await sender.send_due()

    assert [str(each["To"]) for each in mail_server.accepted] == ["bob@example.com"]
    [waiting] = [each for each in await outbox.newest() if each.recipient == "ada@example.com"]
    assert waiting.attempts == 1
    assert waiting.due_at is not None
    assert waiting.due_at < waiting.created_at + CLAIM_SECONDS * 1_000_000


async def test_a_server_that_refuses_everything_is_not_flooded(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After some refusals the rest waits for the next round."""
    monkeypatch.setattr(sender_module, "FAILURES_MAX", 3)
    await write(database, outbox, *(f"a{n}@example.com" for n in range(5)))
    mail_server.mood = "refuse"

    await sender.send_due()

    assert len(mail_server.offered) == 3


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["busy", "refuse", "refuse recipient", "drop"])
async def test_a_server_that_does_not_accept_gets_the_message_again(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
    mood: Mood,
) -> None:
    """Each attempt has the same id, and once the server has said OK there is no other."""
    await write(database, outbox, "ada@example.com")
    mail_server.mood = mood
    for _ in range(3):
        await sender.send_due()
        assert (await outbox.figures()).waiting == 1
        clock.advance(seconds=60)

    mail_server.mood = "accept"
    await send_until_empty(sender, outbox, clock)
    await sender.send_due()

    assert list(mail_server.ids().values()) == [1]
    assert len({each["Message-ID"] for each in mail_server.offered}) == 1


async def test_a_server_that_hangs_is_cut_off(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The message waits, and is sent once the server answers again."""
    monkeypatch.setattr(sender_module, "DELIVERY_SECONDS_MAX", 0.3)
    await write(database, outbox, "ada@example.com")
    mail_server.mood = "hang"
    with captured_logs() as logs:
        await sender.send_due()
    assert [line["reason"] for line in logs] == ["the mail server took too long"]

    monkeypatch.undo()
    mail_server.stop()  # on a busy machine, it may not have read the message yet
    mail_server.mood = "accept"
    mail_server.start()
    await send_until_empty(sender, outbox, clock)

    assert list(mail_server.ids().values()) == [1]


async def test_a_message_that_is_refused_for_good_is_given_up(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
) -> None:
    """After eight refusals the log and the figures say so; a month later it is deleted."""
    await write(database, outbox, "ada@example.com")
    mail_server.mood = "refuse"
    with captured_logs() as logs:
        await send_until_empty(sender, outbox, clock)

    assert len(mail_server.offered) == REFUSED_ATTEMPTS_MAX
    assert (logs[-1]["level"], logs[-1]["event"]) == ("error", "mail was given up")
    assert logs[-1]["reason"] == "554 Never"
    assert await outbox.figures() == OutboxFigures(0, None, 1)
    assert await outbox.sweep() == 0
    clock.advance(seconds=KEPT_DAYS * 24 * 3600)
    assert await outbox.sweep() == 1


async def test_a_message_that_has_become_too_old_is_not_sent(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
) -> None:
    """It may have waited in a backup, or while there was no mail server; it is given up."""
    await write(database, outbox, "ada@example.com")
    clock.advance(seconds=SENDING_DAYS_MAX * 24 * 3600)
    await write(database, outbox, "bob@example.com")

    await sender.send_due()

    assert [each["To"] for each in mail_server.accepted] == ["bob@example.com"]
    assert await outbox.figures() == OutboxFigures(0, None, 1)


async def test_a_message_that_nobody_sends_stops_waiting_and_is_deleted(
    database: Database, outbox: Outbox, clock: ManualClock
) -> None:
    """A server without mail has no sender that would give the message up."""
    await write(database, outbox, "ada@example.com")
    clock.advance(seconds=SENDING_DAYS_MAX * 24 * 3600 - 1)
    assert (await outbox.figures()).waiting == 1
    clock.advance(seconds=1)
    assert await outbox.figures() == OutboxFigures(0, None, 0)
    clock.advance(seconds=(KEPT_DAYS - SENDING_DAYS_MAX) * 24 * 3600)
    assert await outbox.sweep() == 1


async def test_several_processes_send_each_message_once(
    database: Database,
    outbox: Outbox,
    new_sender: Callable[[], MailSender],
    mail_server: MailServer,
) -> None:
    """Each claims the messages that it sends."""
    await write(database, outbox, *(f"person{number}@example.com" for number in range(12)))

    await asyncio.gather(*(new_sender().send_due() for _ in range(4)))

    assert sorted(mail_server.ids().values()) == [1] * 12
    assert (await outbox.figures()).waiting == 0


async def test_the_message_of_a_process_that_died_is_sent_by_another(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    clock: ManualClock,
) -> None:
    """Its claim ends after three minutes; until then nobody else sends the message."""
    await write(database, outbox, "ada@example.com")
    now, until = clock(), clock() + CLAIM_SECONDS * 1_000_000
    claimed = await database.write(lambda each: store.claim(each, now, until))
    assert claimed is not None

    await sender.send_due()
    assert mail_server.accepted == []
    clock.advance(seconds=CLAIM_SECONDS)
    await sender.send_due()

    assert list(mail_server.ids().values()) == [1]


class _AwayAfterSending(DelegatingDatabase):
    """A database that is away for some writes, once the mail server has a message."""

    def __init__(self, database: Database, mail_server: MailServer) -> None:
        super().__init__(database)
        self._mail_server = mail_server
        self.refusals_left = 3

    @override
    async def write(self, work: Work[Result], **options: object) -> Result:
        if self._mail_server.accepted and self.refusals_left:
            self.refusals_left -= 1
            raise DatabaseUnavailable("The test says so.")
        return await self._database.write(work)


async def test_an_accepted_message_is_recorded_even_if_the_database_is_away_for_a_while(
    database: Database,
    outbox: Outbox,
    mail_server: MailServer,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sender does not forget that the server has said OK."""
    monkeypatch.setattr(sender_module, "RECORD_SECONDS", 0.001)
    away = _AwayAfterSending(database, mail_server)
    client = SmtpClient(mail_server_at(mail_server.url), SENDER)
    sender = MailSender(away, clock, client, NO_OBSERVER)
    await write(database, outbox, "ada@example.com")

    await sender.send_due()
    clock.advance(seconds=CLAIM_SECONDS)
    await sender.send_due()

    assert away.refusals_left == 0
    assert list(mail_server.ids().values()) == [1]


async def test_a_stop_waits_for_the_message_that_is_being_sent(
    database: Database,
    outbox: Outbox,
    sender: MailSender,
    mail_server: MailServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not for long, if the mail server hangs: then another process tries again later."""
    monkeypatch.setattr(sender_module, "STOP_SECONDS_MAX", 0.05)
    await write(database, outbox, "ada@example.com")
    mail_server.mood = "hang"
    sending = asyncio.create_task(sender.send_due())
    assert await asyncio.to_thread(mail_server.is_hanging.wait, 60)

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert (await outbox.figures()).waiting == 1


async def test_a_message_that_is_accepted_during_a_stop_is_not_sent_again(
    database: Database, outbox: Outbox, clock: ManualClock
) -> None:
    """The stop waits until that is recorded."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    class SlowClient:
        async def send(self, mail: Mail, seconds_max: float) -> None:
            del mail, seconds_max
            has_begun.set()
            await may_end.wait()

    await write(database, outbox, "ada@example.com")
    sender = MailSender(database, clock, SlowClient(), NO_OBSERVER)
    sending = asyncio.create_task(sender.send_due())
    await has_begun.wait()

    sending.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert (await outbox.figures()).waiting == 0


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_server_without_starttls_gets_nothing(
    database: Database, outbox: Outbox, mail_server: MailServer
) -> None:
    """Unless it is on this machine, encryption is demanded before anything is said.

    It may offer STARTTLS again later, so the message is not given up.
    """
    address = Address(
        host="127.0.0.1",
        port=mail_server.port,
        encryption="starttls",
        username="ada",
        password="geheim",
    )
    await write(database, outbox, "ada@example.com")
    [mail] = await outbox.newest()

    with pytest.raises(NotSent, match="STARTTLS") as refused:
        await SmtpClient(address, SENDER).send(mail, 60)

    assert not refused.value.is_refused
    assert mail_server.offered == []


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_the_sender_signs_in_if_the_address_has_credentials(
    database: Database, outbox: Outbox
) -> None:
    """A wrong password is a reason to try again: the operator may correct it."""
    await write(database, outbox, "ada@example.com")
    [mail] = await outbox.newest()
    with MailServer(credentials=("ada", "p/q")) as mail_server:
        right = mail_server_at(mail_server.url.replace("//", "//ada:p%2Fq@"))
        wrong = mail_server_at(mail_server.url.replace("//", "//ada:wrong@"))
        with pytest.raises(NotSent) as refused:
            await SmtpClient(wrong, SENDER).send(mail, 60)
        await SmtpClient(right, SENDER).send(mail, 60)

        assert not refused.value.is_refused
        assert (mail_server.sign_ins[0], mail_server.sign_ins[-1]) == (False, True)
        assert list(mail_server.ids().values()) == [1]


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    "recipient",
    [
        *(
            "a(comment)@example.com",
            "a,b@example.com",
            '"a b"@example.com',
            "<script>@evil.example",
        ),
        "[a]@example.com",
        "=?utf-8?q??=@example.com",
        "=?utf-8?q?a=40evil.example=2c?=@example.com",
    ],
)
async def test_an_address_that_mail_programs_read_differently_gets_nothing(
    database: Database, outbox: Outbox, mail_server: MailServer, recipient: str
) -> None:
    """Otherwise the message could reach another mailbox than the one that it would confirm."""
    await write(database, outbox, recipient)
    [mail] = await outbox.newest()
    client = SmtpClient(mail_server_at(mail_server.url), SENDER)

    with pytest.raises(NotSent, match="cannot be written") as refused:
        await client.send(mail, 60)

    assert refused.value.is_refused
    assert mail_server.offered == []
