"""An email finds an account only after it has been confirmed; the first to confirm it has it."""

import asyncio

import pytest

from ousel.accounts.service import AccountService, IdentifierInUse
from ousel.accounts.store import LOCK_HOLDER
from ousel.accounts.verification import verify_identifiers
from ousel.database.port import Database
from ousel.emails.rules import CONFIRMATION_SECONDS, WRONG_CODES_MAX
from ousel.emails.service import PendingConfirmations
from ousel.emails.store import LOCK_CONFIRMATION
from ousel.kernel.errors import InvalidField
from ousel.kernel.settings import Settings
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Movement, Refused
from ousel.mail.outbox import Outbox
from ousel.people import store
from ousel.people.attempts import AttemptCounter, TooManyAttempts
from ousel.people.email_confirmation import (
    EmailConfirmationService,
    EmailLinkEnded,
    NoMail,
)
from ousel.people.rules import (
    EMAIL_CODE_LIMIT,
    LINK_LIMIT,
    MAIL_ACCOUNT_LIMIT,
    MAIL_RECIPIENT_LIMIT,
)
from ousel.people.sign_in import SignInService, WrongPassword
from tests.faults.sizes import sized
from tests.ledger.examples import posting
from tests.people.mailboxes import EMAIL, People, race
from tests.people.members import HOME, OFFICE
from tests.people.recorded_statements import record_statements
from tests.support.accounts import person, verify
from tests.support.clock import ManualClock
from tests.support.mail import code_in
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD
from tests.support.waiting import until_blocked


def wrong(code: str) -> str:
    """Return another code."""
    return f"{(int(code) + 1) % 1_000_000:06d}"


async def test_an_email_finds_the_account_only_once_it_is_confirmed(people: People) -> None:
    """Before, neither a look-up nor a sign-in finds it; the username works all the time."""
    ada = await people.sign_up("ada")
    assert await people.owner() is None
    with pytest.raises(WrongPassword):
        await people.sign_in.sign_in(EMAIL, PASSWORD, OFFICE)
    await people.sign_in.sign_in("ada", PASSWORD, OFFICE)
    assert not (await people.emails.state(ada)).email.is_confirmed

    await people.confirm(ada)

    assert await people.owner() == ada
    await people.sign_in.sign_in(EMAIL, PASSWORD, OFFICE)
    state = await people.emails.state(ada)
    assert (state.email.is_confirmed, state.pending, state.to_confirm) == (True, None, None)
    await people.database.snapshot(verify_identifiers)


async def test_a_transfer_to_an_unconfirmed_email_reaches_nobody(
    people: People, database: Database
) -> None:
    """The same transfer reaches the account once the email is confirmed."""
    ada = await people.sign_up("ada")
    payer = await person(database, "payer", "100", people.clock)
    queue = PostingQueue(database, people.clock, queue_limit=10)
    refused = (await queue.post(posting(payer.id, EMAIL, 1, key="k"))).outcome
    assert isinstance(refused, Refused)
    assert isinstance(refused.refusal, AccountNotFound)

    await people.confirm(ada)

    moved = (await queue.post(posting(payer.id, EMAIL, 1, key="k"))).outcome
    assert isinstance(moved, Movement)
    assert moved.credit.account_id == ada


async def test_a_link_confirms_an_email_without_a_session(people: People) -> None:
    """It says whose account it is for, and works once."""
    ada = await people.sign_up("ada")
    link = await people.link()
    target = await people.emails.find_link(link, OFFICE)
    assert (target.email, target.username) == (EMAIL, "ada")
    assert await people.owner() is None

    await people.emails.confirm_with_link(link, OFFICE)

    assert await people.owner() == ada
    for use in (
        people.emails.find_link(link, OFFICE),
        people.emails.confirm_with_link(link, OFFICE),
    ):
        with pytest.raises(EmailLinkEnded):
            await use


async def test_a_code_works_once(people: People) -> None:
    """Afterwards there is nothing to confirm."""
    ada = await people.sign_up("ada")
    code = await people.code()
    await people.emails.confirm_with_code(ada, code, HOME)
    with pytest.raises(InvalidField, match="no longer valid"):
        await people.emails.confirm_with_code(ada, code, HOME)


@pytest.mark.parametrize("seconds", [CONFIRMATION_SECONDS - 1, CONFIRMATION_SECONDS])
async def test_link_and_code_are_valid_for_half_an_hour(people: People, seconds: int) -> None:
    """To the second; then a new message is needed, and helps."""
    ada = await people.sign_up("ada")
    code, link = await people.code(), await people.link()
    people.clock.advance(seconds=seconds)
    if seconds < CONFIRMATION_SECONDS:
        await people.emails.find_link(link, OFFICE)
    else:
        with pytest.raises(InvalidField, match="no longer valid"):
            await people.emails.confirm_with_code(ada, code, HOME)
        with pytest.raises(EmailLinkEnded):
            await people.emails.confirm_with_link(link, HOME)
        await people.send(ada)
        link = await people.link()
    await people.emails.confirm_with_link(link, HOME)
    assert await people.owner() == ada


async def test_five_wrong_codes_end_the_code_and_the_link(people: People) -> None:
    """The right code then comes too late; the page says how many tries are left."""
    ada = await people.sign_up("ada")
    code, link = await people.code(), await people.link()
    for left in range(WRONG_CODES_MAX - 1, 0, -1):
        with pytest.raises(InvalidField, match=f"Tries left: {left}"):
            await people.emails.confirm_with_code(ada, wrong(code), HOME)
    with pytest.raises(InvalidField, match="was the last try"):
        await people.emails.confirm_with_code(ada, wrong(code), HOME)

    with pytest.raises(InvalidField, match="no longer valid"):
        await people.emails.confirm_with_code(ada, code, HOME)
    with pytest.raises(EmailLinkEnded):
        await people.emails.confirm_with_link(link, HOME)
    assert await people.owner() is None


async def test_a_new_message_replaces_the_one_before(people: People) -> None:
    """The old link no longer works."""
    ada = await people.sign_up("ada")
    old = await people.link()
    await people.send(ada)
    with pytest.raises(EmailLinkEnded):
        await people.emails.confirm_with_link(old, HOME)
    await people.emails.confirm_with_link(await people.link(), HOME)
    assert await people.owner() == ada


async def test_the_first_of_several_to_confirm_an_email_has_it(people: People) -> None:
    """All others learn it when they confirm it too, and not before."""
    eve, ada = await people.sign_up("eve"), await people.sign_up("ada")
    ada_text, eve_text = await people.mail()
    await people.emails.confirm_with_code(ada, code_in(ada_text), HOME)

    with pytest.raises(IdentifierInUse, match="belongs to another account"):
        await people.emails.confirm_with_code(eve, code_in(eve_text), OFFICE)

    assert await people.owner() == ada
    assert not (await people.emails.state(eve)).email.is_confirmed
    await people.database.snapshot(verify_identifiers)


async def test_the_owner_of_an_email_is_told_that_somebody_else_wants_it(people: People) -> None:
    """The message has neither a code nor a link that would give it away."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    await people.sign_up("eve")

    [told, _] = await people.mail()

    assert "already belongs to another account" in told
    assert "@eve" in told
    assert "token=" not in told


async def test_two_who_confirm_one_email_at_once_do_not_both_have_it(
    people: People, database: Database
) -> None:
    """Exactly one has it, and a transfer to it reaches that one only."""
    payer = await person(database, "payer", "100", people.clock)
    for number in range(sized(3, 200)):
        people.clock.advance(seconds=3600)  # so that no limit on sign-ups is reached
        await race(people, payer.id, f"race{number}@example.com", number)

    await database.snapshot(verify_identifiers)
    await verify(database)


async def test_changing_the_email_needs_the_password_and_a_confirmation(people: People) -> None:
    """Until the new one is confirmed, the old one is valid; then it is released and told."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    with pytest.raises(InvalidField) as refused:
        await people.emails.change(ada, "wrong horse battery", "new@example.com", HOME)
    assert refused.value.param == "password"
    with pytest.raises(InvalidField, match="your email already"):
        await people.emails.change(ada, PASSWORD, "ADA@example.com", HOME)

    await people.emails.change(ada, PASSWORD, "New@example.com", HOME)
    assert await people.owner() == ada
    assert await people.owner("new@example.com") is None
    assert (await people.emails.state(ada)).to_confirm == "new@example.com"
    await people.confirm(ada, "new@example.com")

    assert await people.owner("new@example.com") == ada
    assert await people.owner() is None
    [told, *_] = await people.mail()
    assert "The Ousel account @ada has a new email" in told
    assert "new@example.com" not in told
    await people.database.snapshot(verify_identifiers)


async def test_a_released_email_can_be_confirmed_by_somebody_else(
    people: People, database: Database
) -> None:
    """Transfers then reach its new owner, also in a process that sent to the old one before."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    payer = await person(database, "payer", "100", people.clock)
    queue = PostingQueue(database, people.clock, queue_limit=10)
    before = (await queue.post(posting(payer.id, EMAIL, 1, key="before"))).outcome
    await people.emails.change(ada, PASSWORD, "new@example.com", HOME)
    await people.confirm(ada, "new@example.com")
    between = (await queue.post(posting(payer.id, EMAIL, 1, key="between"))).outcome
    eve = await people.sign_up("eve")
    await people.confirm(eve)
    after = (await queue.post(posting(payer.id, EMAIL, 1, key="after"))).outcome
    again = (await queue.post(posting(payer.id, EMAIL, 1, key="before"))).outcome

    assert isinstance(before, Movement)
    assert before.credit.account_id == ada
    assert isinstance(between, Refused)
    assert isinstance(after, Movement)
    assert after.credit.account_id == eve
    assert isinstance(again, Refused)
    assert again.refusal.code == "idempotency_conflict"
    await queue.close()


async def test_a_mistyped_email_can_be_corrected(people: People) -> None:
    """Nobody is told, because nobody has confirmed the mistyped one."""
    ada = await people.sign_up("ada", "adda@example.com")
    await people.emails.change(ada, PASSWORD, EMAIL, HOME)
    await people.confirm(ada)

    assert await people.owner() == ada
    assert len(await people.mail("adda@example.com")) == 1
    assert (await people.emails.state(ada)).email.address == EMAIL


async def test_codes_are_limited_per_account(people: People) -> None:
    """Twenty wrong ones a day, however many messages are sent, and from any address."""
    ada = await people.sign_up("ada")
    for number in range(EMAIL_CODE_LIMIT.attempts_max):
        if number % WRONG_CODES_MAX == 0:
            await people.send(ada)
        with pytest.raises(InvalidField):
            await people.emails.confirm_with_code(ada, wrong(await people.code()), HOME)
    await people.send(ada)
    with pytest.raises(TooManyAttempts, match="codes were wrong"):
        await people.emails.confirm_with_code(ada, await people.code(), OFFICE)
    people.clock.advance(seconds=EMAIL_CODE_LIMIT.window_seconds)
    await people.send(ada)
    await people.confirm(ada)


async def test_messages_are_limited_per_account_and_per_mailbox(people: People) -> None:
    """Whoever is over the limit can sign up, but no further message is sent."""
    ada = await people.sign_up("ada")
    for _ in range(MAIL_ACCOUNT_LIMIT.attempts_max - 1):
        await people.send(ada)
    with pytest.raises(TooManyAttempts, match="messages were requested"):
        await people.send(ada)
    with pytest.raises(TooManyAttempts):
        await people.emails.change(ada, PASSWORD, "other@example.com", HOME)

    eve = await people.sign_up("eve")
    assert len(await people.mail()) == MAIL_RECIPIENT_LIMIT.attempts_max
    assert (await people.emails.state(eve)).pending is None
    with pytest.raises(TooManyAttempts):
        await people.emails.send(eve, OFFICE)


async def test_links_that_do_not_work_are_limited_per_address(people: People) -> None:
    """A stranger cannot open or try them without end."""
    for _ in range(LINK_LIMIT.attempts_max // 2):
        for use in (people.emails.find_link, people.emails.confirm_with_link):
            with pytest.raises(EmailLinkEnded):
                await use("ep_" + "0" * 40, OFFICE)
    with pytest.raises(TooManyAttempts):
        await people.emails.confirm_with_link("ep_" + "0" * 40, OFFICE)
    ada = await people.sign_up("ada")
    await people.emails.confirm_with_link(await people.link(), OFFICE)
    assert await people.owner() == ada


async def test_links_and_codes_are_stored_as_hashes(people: People, raw_sql: RawSql) -> None:
    """Whoever reads the table of pending confirmations cannot use it."""
    await people.sign_up("ada")
    code, link = await people.code(), await people.link()

    [row] = await raw_sql.run("SELECT * FROM email_proofs")

    assert link not in str(row)
    assert code not in [str(each) for each in row]


async def test_a_server_without_mail_says_so(
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    sign_in: SignInService,
    people: People,
) -> None:
    """Nothing is written to the outbox; the operator can vouch for the email."""
    outbox = Outbox(database, clock, Settings())
    confirmations = PendingConfirmations(outbox, clock, "https://pay.example")
    emails = EmailConfirmationService(
        database, clock, attempts, confirmations, sign_in.password_check
    )
    ada = await people.sign_up("ada", "other@example.com")
    for ask in (emails.send(ada, HOME), emails.change(ada, PASSWORD, EMAIL, HOME)):
        with pytest.raises(NoMail):
            await ask
    assert await outbox.newest(EMAIL) == []

    await AccountService(database, clock).confirm_email("@ada")

    assert await people.owner("other@example.com") == ada


@pytest.mark.parametrize("engine", ["postgresql"])  # on SQLite, there is one writer at a time
async def test_an_operator_vouches_for_the_email_that_is_confirmed_meanwhile(
    people: People, raw_sql: RawSql, database_url: str
) -> None:
    """The email that the holder has just proved is not replaced by the one before."""
    ada = await people.sign_up("ada")
    await raw_sql.run("BEGIN")
    await raw_sql.run(
        "UPDATE holders SET email = 'new@example.com', email_unproven_since = NULL"
        f" WHERE account_id = '{ada}'"
    )
    await raw_sql.run(f"INSERT INTO identifiers VALUES ('new@example.com', '{ada}')")
    vouching = asyncio.create_task(
        AccountService(people.database, people.clock).confirm_email("@ada")
    )
    await until_blocked(database_url)
    await raw_sql.run("COMMIT")

    assert (await vouching).email.address == "new@example.com"
    assert await people.owner("new@example.com") == ada
    assert await people.owner() is None


async def test_a_late_link_for_an_email_that_the_operator_has_confirmed_changes_nothing(
    people: People,
) -> None:
    """The events do not say that the email was changed."""
    ada = await people.sign_up("ada")
    link = await people.link()
    await AccountService(people.database, people.clock).confirm_email("@ada")
    assert (await people.emails.state(ada)).to_confirm is None

    await people.emails.confirm_with_link(link, OFFICE)

    events = await people.database.read(
        lambda transaction: store.events_before(transaction, ada, "ev_~", 100)
    )
    assert "email_changed" not in {event.kind for event in events}


async def test_an_operator_cannot_vouch_for_an_email_that_another_account_has(
    people: People,
) -> None:
    """The first account keeps it."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    await people.sign_up("eve")
    with pytest.raises(IdentifierInUse):
        await AccountService(people.database, people.clock).confirm_email("@eve")
    assert await people.owner() == ada


@pytest.mark.parametrize("by_link", [True, False])
async def test_a_confirmation_locks_what_a_new_password_locks_in_the_same_order(
    people: People, monkeypatch: pytest.MonkeyPatch, *, by_link: bool
) -> None:
    """Otherwise the two could deadlock, and one of them would begin again after a second."""
    ada = await people.sign_up("ada")
    link, code = await people.link(), await people.code()
    asked = record_statements(monkeypatch, people.database, "write")

    if by_link:
        await people.emails.confirm_with_link(link, HOME)
    else:
        await people.emails.confirm_with_code(ada, code, HOME)

    assert asked.index(LOCK_HOLDER.name) < asked.index(LOCK_CONFIRMATION.name)
