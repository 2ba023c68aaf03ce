"""Notices by mail: about which events, to whom, and what they do not contain."""

from typing import get_args

import msgspec
import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.settings import Settings
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import KeyCheck, Movement, Posting
from ousel.mail.outbox import Outbox
from ousel.people.account_settings import AccountSettingsService
from ousel.people.attempts import AttemptCounter
from ousel.people.letters import NoticeKind, notice_letter
from ousel.people.notices import EventNotices, MoneyNotices
from ousel.people.recovery import OperatorRecovery
from ousel.people.rules import NOTICE_LIMIT
from ousel.people.sign_in import WrongCode, WrongPassword
from tests.ledger.examples import posting
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.support.accounts import person, verify
from tests.support.clock import ManualClock
from tests.support.controlled_database import ControlledDatabase
from tests.support.postgres_proxy import Cut, PostgresProxy
from tests.support.visitor import PASSWORD

NEW_PASSWORD = "a better horse battery"
SIGNED_IN = "New sign-in to your Ousel account"


@pytest.fixture
def money_queue(
    database: Database, clock: ManualClock, outbox: Outbox, attempts: AttemptCounter
) -> PostingQueue:
    """A queue that notifies the recipients of what people send."""
    return PostingQueue(database, clock, queue_limit=100, notices=MoneyNotices(outbox, attempts))


async def subjects(outbox: Outbox, email: str = EMAIL) -> list[str]:
    """Return the subjects of the messages to an address, without the one that confirms it."""
    found = [each.subject for each in await outbox.newest(email)]
    return sorted(each for each in found if each != "Confirm your email")


async def text_of(outbox: Outbox, subject: str, email: str = EMAIL) -> str:
    """Return the text of a message with this subject."""
    return next(each.text for each in await outbox.newest(email) if each.subject == subject)


def sent(sender_id: str, to: str, amount: int, key: str | None = None) -> Posting:
    """Return what a person sends on the page for it."""
    return posting(sender_id, to, amount, key=key, notifies_recipient=True)


async def test_a_sign_in_on_a_new_device_is_told_once(ada: Member, outbox: Outbox) -> None:
    """The browser is known from then on; the message names the device and its address."""
    office = msgspec.structs.replace(OFFICE, browser_hash="the hash of a cookie")
    for _ in range(2):
        await ada.sign_in.sign_in("ada", PASSWORD, office)
    assert await subjects(outbox) == [SIGNED_IN]
    told = await text_of(outbox, SIGNED_IN)
    assert "From: Chrome on Windows, IP address 198.51.100.7." in told
    assert "@ada" in told
    assert "If it was not you" in told


async def test_a_sign_in_with_a_code_is_told_when_it_is_complete(
    ada: Member, outbox: Outbox
) -> None:
    """The password alone is not a sign-in, and neither is a wrong code."""
    await ada.turn_on_factor()
    owed = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    with pytest.raises(WrongCode):
        await ada.sign_in.sign_in_with_code(owed.secret, "000000", LAPTOP)
    with pytest.raises(WrongPassword):
        await ada.sign_in.sign_in("ada", "wrong horse battery", OFFICE)
    assert SIGNED_IN not in await subjects(outbox)
    await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), LAPTOP)
    assert SIGNED_IN in await subjects(outbox)


async def test_changes_of_what_protects_an_account_are_told(ada: Member, outbox: Outbox) -> None:
    """The factor turned on and off, and the password changed; no message contains a secret."""
    await ada.turn_on_factor()
    await ada.second_factors.remove(ada.account_id, ada.code(), HOME)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, HOME)
    assert await subjects(outbox) == [
        "A second factor was removed from your Ousel account",
        "An authenticator app was added to your Ousel account",
        "The password of your Ousel account was changed",
    ]
    removed = await text_of(outbox, "A second factor was removed from your Ousel account")
    assert "account @ada: the authenticator app." in removed
    secrets = [PASSWORD, NEW_PASSWORD, ada.factor_secret, *ada.recovery_codes]
    texts = [each.text + each.html for each in await outbox.newest(EMAIL)]
    assert not any(secret in text for secret in secrets for text in texts)


async def test_an_email_that_is_not_confirmed_gets_no_notices(
    people: People, outbox: Outbox, money_queue: PostingQueue
) -> None:
    """It may belong to somebody else."""
    ada = await people.sign_up("ada")
    await people.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    await people.sign_in.change_password(ada, PASSWORD, NEW_PASSWORD, HOME)
    operator = OperatorRecovery(people.database, people.clock, outbox)
    await operator.issue_link(await operator.find("@ada"))
    payer = await person(people.database, "payer", "100", people.clock)
    assert isinstance((await money_queue.post(sent(payer.id, "@ada", 1))).outcome, Movement)
    assert await subjects(outbox) == []


@pytest.mark.one_engine
@pytest.mark.parametrize("kind", get_args(NoticeKind))
def test_each_notice_says_what_to_do(kind: NoticeKind) -> None:
    """What happened, whose account it is, when, and a page on which to act."""
    letter = notice_letter(kind, "ada", "{detail} of it", "When: now.", "https://pay.example")
    assert "@ada" in letter.opening[0]
    assert letter.opening[1] == "When: now."
    assert "If " in letter.closing[0]
    assert letter.link is not None
    assert letter.link[1].startswith("https://pay.example/")


@pytest.mark.one_engine
async def test_a_server_without_mail_writes_no_notices(
    ada: Member, database: Database, clock: ManualClock, outbox: Outbox
) -> None:
    """There would be nobody to send them."""
    silent = EventNotices(Outbox(database, clock, Settings()), clock)
    await database.write(
        lambda transaction: silent.record(transaction, ada.account_id, "signed_in", HOME)
    )
    assert await subjects(outbox) == []
    assert "signed_in" in {event.kind for event in await ada.events()}


async def test_money_from_a_person_is_told_to_its_recipient(
    ada: Member, database: Database, money_queue: PostingQueue, outbox: Outbox
) -> None:
    """Once for each movement, by username or by email; not for replays, refusals or partners."""
    payer = await person(database, "payer", "100000")
    key_check = KeyCheck(payer.id, "no such key")
    for to in ("@ada", EMAIL):
        await money_queue.post(sent(payer.id, to, 10_500_000_000, key=f"to {to}"))
        await money_queue.post(sent(payer.id, to, 10_500_000_000, key=f"to {to}"))  # a replay
    await money_queue.post(sent(payer.id, "@ada", 10**15))  # more than there is
    await money_queue.post(posting(payer.id, "@ada", 1))
    await money_queue.post(posting(payer.id, "@ada", 1, key_check=key_check))

    subject = "You have received 10,500.00 OUSD"
    assert await subjects(outbox) == [subject] * 2
    told = await text_of(outbox, subject)
    assert "@payer has sent 10,500.00 OUSD to your Ousel account @ada." in told
    assert "/activity/2\n" in told or "/activity/1\n" in told
    assert ada.account_id
    assert await outbox.newest("payer@example.com") == []


async def test_notices_of_money_can_be_turned_off(
    ada: Member, database: Database, clock: ManualClock, money_queue: PostingQueue, outbox: Outbox
) -> None:
    """And on again; other notices are sent all the same."""
    payer = await person(database, "payer", "100", clock)
    settings = AccountSettingsService(database, clock)
    for are_wanted in (False, True):
        await settings.set_money_notices(ada.account_id, are_wanted=are_wanted)
        assert (await settings.read(ada.account_id)).wants_money_notices is are_wanted
        await money_queue.post(sent(payer.id, "@ada", 1))
        assert len(await subjects(outbox)) == int(are_wanted)
    await settings.set_money_notices(ada.account_id, are_wanted=False)
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    assert SIGNED_IN in await subjects(outbox)


@pytest.mark.one_engine
async def test_an_account_gets_so_many_notices_of_money_a_day(
    ada: Member, database: Database, clock: ManualClock, money_queue: PostingQueue, outbox: Outbox
) -> None:
    """Nobody can flood a mailbox with transfers of a millionth; the money arrives all the same."""
    payer = await person(database, "payer", "100", clock)
    for _ in range(NOTICE_LIMIT.attempts_max + 2):
        await money_queue.post(sent(payer.id, "@ada", 1))
    result = await money_queue.post(sent(payer.id, "@ada", 1))
    assert isinstance(result.outcome, Movement)
    assert result.outcome.credit.balance_after == NOTICE_LIMIT.attempts_max + 3
    assert len(await subjects(outbox)) == NOTICE_LIMIT.attempts_max
    assert ada.account_id


@pytest.mark.slow
@pytest.mark.one_engine
@pytest.mark.parametrize("kind", get_args(NoticeKind))
async def test_notices_are_limited_by_kind(
    ada: Member, database: Database, notices: EventNotices, outbox: Outbox, kind: NoticeKind
) -> None:
    """Nobody can delay everybody's mail; each event is recorded, and the next day has notices."""
    day_limit = NOTICE_LIMIT.attempts_max

    async def record(event_kind: NoticeKind) -> None:
        await database.write(
            lambda transaction: notices.record(transaction, ada.account_id, event_kind, HOME)
        )

    for _ in range(day_limit + 2):
        await record(kind)
    assert len(await subjects(outbox)) == day_limit
    assert [event.kind for event in await ada.events()].count(kind) == day_limit + 2

    told = len(await subjects(outbox))
    await record("key_issued" if kind != "key_issued" else "key_rotated")
    ada.clock.advance(seconds=NOTICE_LIMIT.window_seconds + 1)
    await record(kind)
    assert len(await subjects(outbox)) == told + 2


@pytest.mark.one_engine
async def test_what_the_operator_does_is_always_told(
    ada: Member, database: Database, clock: ManualClock, outbox: Outbox
) -> None:
    """However often it happens."""
    recovery = OperatorRecovery(database, clock, outbox)
    account = await recovery.find("@ada")
    count = NOTICE_LIMIT.attempts_max + 1

    for _ in range(count):
        await recovery.issue_link(account)

    assert len(await subjects(outbox)) == count
    assert ada.account_id == account.id


@pytest.mark.parametrize("cut", ["before the commit", "after the commit"])
async def test_a_commit_without_an_answer_is_told_once(
    ada: Member, database: Database, clock: ManualClock, outbox: Outbox, cut: Cut
) -> None:
    """The notice is written with the money, so it exists exactly once if the money does."""
    payer = await person(database, "payer", "100", clock)
    controlled = ControlledDatabase(database)
    notices = MoneyNotices(outbox, AttemptCounter(database, clock))
    queue = PostingQueue(controlled, clock, queue_limit=10, notices=notices)
    controlled.faults.append(cut)
    result = await queue.post(sent(payer.id, "@ada", 5))
    assert isinstance(result.outcome, Movement)
    assert controlled.writes == 2
    assert await subjects(outbox) == ["You have received 0.000005 OUSD"]
    await verify(database)
    assert ada.account_id


async def test_transfers_of_partners_cost_no_statement_more(proxy: PostgresProxy) -> None:
    """A queue that can notify makes as many round trips as one that cannot."""
    async with open_database(proxy.url) as database:
        payer = await person(database, "payer", "10")
        await person(database, "bob")
        outbox = Outbox(database, system_clock, Settings(sandbox=True))
        notices = MoneyNotices(outbox, AttemptCounter(database, system_clock))
        queue = PostingQueue(database, system_clock, queue_limit=100, notices=notices)
        for _ in range(2):  # caches the recipient and prepares the statements
            await queue.post(posting(payer.id, "@bob", 1))
        proxy.round_trips = 0
        await queue.post(posting(payer.id, "@bob", 1))
        assert proxy.round_trips == 2
        await queue.post(sent(payer.id, "@bob", 1))
        assert proxy.round_trips > 4
        assert await subjects(outbox, "bob@example.com") == ["You have received 0.000001 OUSD"]
