"""Asking for a link to a new password: who gets one, how often, and what the answer reveals."""

import pytest

from ousel.accounts.service import AccountService
from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.people.attempts import AttemptCounter, TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.notices import EventNotices
from ousel.people.recovery import RecoveryService
from ousel.people.retention import RetentionService
from ousel.people.rules import MAIL_IP_ADDRESS_LIMIT, RESET_LIMIT
from ousel.people.sign_in import SignInService, WrongPassword
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.people.recorded_statements import record_statements
from tests.people.recoveries import Recovery
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD

LIVE = Settings(mail_url="smtp://127.0.0.1:1", mail_from="pay@ousel.test")


async def test_every_identifier_finds_the_account(
    ada: Member, recovery: Recovery, database: Database, clock: ManualClock
) -> None:
    """The username with or without @, the account number and the confirmed email."""
    number = (await AccountService(database, clock).get(ada.account_id)).account_number
    names = ("ada", "@Ada", " ada ", EMAIL, EMAIL.upper(), number, number.lower())
    for count, name in enumerate(names, 1):
        await recovery.ask(name)
        assert len(await recovery.mail()) == count


async def test_whoever_does_not_exist_or_has_no_confirmed_email_gets_nothing(
    people: People, recovery: Recovery
) -> None:
    """Asking for them ends in the same way; nothing is sent."""
    await people.sign_up("ada")
    before = len(await recovery.outbox.newest())
    for name in ("@ada", EMAIL, "@nobody", "nobody@example.com", "", "no such name", "OU00"):
        await recovery.ask(name)
    assert len(await recovery.outbox.newest()) == before


async def test_the_same_statements_run_for_accounts_that_do_not_exist(
    ada: Member,
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    sign_in: SignInService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the time of the answer does not tell who has an account, or a confirmed email."""
    outbox = Outbox(database, clock, LIVE)
    notices = EventNotices(outbox, clock)
    service = RecoveryService(database, clock, attempts, outbox, notices, sign_in.passwords)
    asked = record_statements(monkeypatch, database, "write")
    ran = {}
    assert ada.account_id
    for name in ("ada", EMAIL, "nobody", "nobody@example.com"):
        asked.clear()
        await service.send_link(name, HOME)
        ran[name] = tuple(asked)
    assert len(set(ran.values())) == 1
    assert len(ran["ada"]) > 5

    assert sorted(each.recipient for each in await outbox.newest()) == ["", "", *[EMAIL] * 3]
    assert (await outbox.figures()).waiting == 2  # beside what the sandbox wrote at sign-up
    await outbox.sweep()
    assert [each.recipient for each in await outbox.newest()] == [EMAIL] * 3


async def test_the_same_statements_refuse_a_password_for_a_name_that_nobody_has(
    ada: Member, database: Database, sign_in: SignInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the time of the answer does not tell who has an account."""
    asked = record_statements(monkeypatch, database, "write")
    ran = []
    assert ada.account_id
    for name in ("ada", "nobody"):
        asked.clear()
        with pytest.raises(WrongPassword):
            await sign_in.sign_in(name, "wrong horse battery", HOME)
        ran.append(tuple(asked))
    assert ran[0] == ran[1]
    assert len(ran[0]) > 2


async def test_no_event_keeps_a_name_that_nobody_has(
    database: Database,
    sign_in: SignInService,
    raw_sql: RawSql,
    clock: ManualClock,
    pending_confirmations: PendingConfirmations,
) -> None:
    """It may be a password that was typed into the wrong field."""
    with pytest.raises(WrongPassword):
        await sign_in.sign_in("correct horse battery", "", HOME)
    [(account_id,)] = await raw_sql.run("SELECT account_id FROM audit_events")
    assert account_id == "none"

    await RetentionService(database, clock, pending_confirmations).sweep()

    assert await raw_sql.run("SELECT account_id FROM audit_events") == []


@pytest.mark.slow
async def test_ten_links_a_day_are_sent_for_an_account(
    ada: Member, recovery: Recovery, clock: ManualClock
) -> None:
    """From all addresses together; nobody is told, and the last link goes on working.

    A browser that the account knows has ten of its own, so strangers cannot use them up.
    """
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    for number in range(RESET_LIMIT.attempts_max + 5):
        await recovery.ask(("ada", EMAIL)[number % 2], EventSource(f"198.51.100.{number}", ""))
    sent = await recovery.mail()
    assert len(sent) == RESET_LIMIT.attempts_max
    await recovery.service.find_link(sent[0], HOME)

    await recovery.ask(source=LAPTOP)

    sent = await recovery.mail()
    assert len(sent) == RESET_LIMIT.attempts_max + 1
    clock.advance(seconds=RESET_LIMIT.window_seconds)
    await recovery.ask()
    assert len(await recovery.mail()) == RESET_LIMIT.attempts_max + 2


@pytest.mark.slow
@pytest.mark.one_engine
async def test_one_address_can_ask_for_so_many_links(ada: Member, recovery: Recovery) -> None:
    """Whether the accounts exist or not; another address is not affected."""
    assert ada.account_id
    for number in range(MAIL_IP_ADDRESS_LIMIT.attempts_max):
        await recovery.service.send_link(f"@nobody_{number % 30}", OFFICE)
    for name in ("@ada", "@nobody"):
        with pytest.raises(TooManyAttempts, match="Too many messages were requested"):
            await recovery.service.send_link(name, OFFICE)
    await recovery.ask(source=LAPTOP)
    assert len(await recovery.mail()) == 1
