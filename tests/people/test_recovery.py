"""A forgotten password: a link by mail or from the operator sets a new one."""

import asyncio
from typing import Any, TypeVar, cast

import msgspec
import pytest

from ousel.accounts.service import AccountService
from ousel.database.port import Database, Row, Transaction, Work
from ousel.database.statements import Statement, Table
from ousel.emails.service import EmailProofs
from ousel.kernel.errors import InvalidField
from ousel.kernel.settings import Settings
from ousel.mail.outbox import Outbox
from ousel.passkeys.rules import Owner
from ousel.people.attempts import AttemptCounter, TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.notices import EventNotices
from ousel.people.passkeys import PasskeyService
from ousel.people.recovery import OperatorRecovery, RecoveryService, ResetLinkEnded
from ousel.people.retention import RetentionService
from ousel.people.rules import LINK_LIMIT, MAIL_ADDRESS_LIMIT, RESET_LIMIT
from ousel.people.sign_in import SignInService, WrongPassword
from ousel.resets.rules import LINK_SECONDS
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.support.authenticator import Authenticator
from tests.support.clock import ManualClock
from tests.support.mail import link_in
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD

Result = TypeVar("Result")

NEW_PASSWORD = "a better horse battery"
LIVE = Settings(mail_url="smtp://127.0.0.1:1", mail_from="pay@ousel.test")
LINKS = "SELECT link_hash FROM reset_links"


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


@pytest.fixture
def recovery(
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    outbox: Outbox,
    sign_in: SignInService,
    notices: EventNotices,
) -> Recovery:
    """The recovery service of a fresh database."""
    service = RecoveryService(database, clock, attempts, outbox, notices, sign_in.passwords)
    return Recovery(service, OperatorRecovery(database, clock, outbox), outbox, clock)


def _token(link: str) -> str:
    return link.partition("token=")[2]


async def test_a_link_sets_a_new_password_once(ada: Member, recovery: Recovery) -> None:
    """The old password no longer works, and all sessions end; the link works once."""
    opened = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    link = await recovery.link()
    target = await recovery.service.find_link(link, OFFICE)
    assert (target.username, target.removes_factor) == ("ada", False)
    assert await ada.find(opened.secret) is not None

    await recovery.use(link)

    assert await ada.find(opened.secret) is None
    with pytest.raises(WrongPassword):
        await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
    assert (await ada.sign_in.sign_in("ada", NEW_PASSWORD, OFFICE)).stage == "signed_in"
    for use in (recovery.service.find_link(link, OFFICE), recovery.use(link, PASSWORD)):
        with pytest.raises(ResetLinkEnded):
            await use
    reset = next(event for event in await ada.events() if event.kind == "password_reset")
    assert (reset.detail, reset.ip_address) == ("a link by mail", OFFICE.ip_address)


async def test_every_identifier_finds_the_account(
    ada: Member, recovery: Recovery, database: Database, clock: ManualClock
) -> None:
    """The username with or without @, the account number and the proven email."""
    number = (await AccountService(database, clock).get(ada.account_id)).account_number
    names = ("ada", "@Ada", " ada ", EMAIL, EMAIL.upper(), number, number.lower())
    for count, name in enumerate(names, 1):
        await recovery.ask(name)
        assert len(await recovery.mail()) == count


async def test_whoever_does_not_exist_or_has_no_proven_email_gets_nothing(
    people: People, recovery: Recovery
) -> None:
    """Asking for them ends in the same way; nothing is sent."""
    await people.sign_up("ada")
    before = len(await recovery.outbox.newest())
    for name in ("@ada", EMAIL, "@nobody", "nobody@example.com", "", "no such name", "OU00"):
        await recovery.ask(name)
    assert len(await recovery.outbox.newest()) == before


class RecordingTransaction(msgspec.Struct):
    """A transaction that records the names of its statements."""

    transaction: Transaction
    asked: list[str]

    async def fetch(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Run the statement and return all its rows."""
        self.asked.append(statement.name)
        return await self.transaction.fetch(statement, **parameters)

    async def execute(self, statement: Statement, **parameters: Any) -> int:
        """Run the statement and return how many rows it has changed."""
        self.asked.append(statement.name)
        return await self.transaction.execute(statement, **parameters)

    async def insert(self, table: Table, rows: list[tuple[Any, ...]]) -> None:
        """Insert the rows."""
        self.asked.append(f"{table.name}: {len(rows)}")
        await self.transaction.insert(table, rows)


async def test_the_same_statements_run_for_accounts_that_do_not_exist(
    ada: Member,
    database: Database,
    clock: ManualClock,
    attempts: AttemptCounter,
    sign_in: SignInService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the time of the answer does not tell who has an account, or a proven email."""
    outbox = Outbox(database, clock, LIVE)
    notices = EventNotices(outbox, clock)
    service = RecoveryService(database, clock, attempts, outbox, notices, sign_in.passwords)
    asked: list[str] = []
    write = database.write

    async def recording_write(work: Work[Result]) -> Result:
        async def with_names(transaction: Transaction) -> Result:
            return await work(cast("Transaction", RecordingTransaction(transaction, asked)))

        return await write(with_names)

    monkeypatch.setattr(database, "write", recording_write)
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


async def test_the_second_factor_is_kept(ada: Member, recovery: Recovery) -> None:
    """After the reset, the person signs in with the password and a code, as always."""
    await ada.turn_on_factor()
    await recovery.use(await recovery.link())
    ada.pass_a_code()
    owed = await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)
    assert owed.stage == "awaits_code"
    signed_in = await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), HOME)
    assert signed_in.stage == "signed_in"


async def test_the_operators_link_removes_the_second_factor(
    ada: Member, recovery: Recovery, raw_sql: RawSql
) -> None:
    """It is recorded, and so is its use; the mailbox gets a message about both, without the link.

    The recovery codes are deleted too.
    """
    await ada.turn_on_factor()
    link = await recovery.operator_link()
    assert (await recovery.service.find_link(link, HOME)).removes_factor
    issued = (await ada.events())[0]
    assert (issued.kind, issued.device) == ("recovery_link_issued", "Operator")

    await recovery.use(link)

    assert (await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)).stage == "signed_in"
    assert await raw_sql.run("SELECT * FROM recovery_codes") == []
    kinds = [event.kind for event in await ada.events()]
    assert {"password_reset", "second_factor_turned_off"} <= set(kinds[:4])
    mail = await recovery.outbox.newest(EMAIL)
    subjects = [each.subject for each in mail]
    assert "The operator has issued a link to your Ousel account" in subjects
    assert "The password of your Ousel account was changed" in subjects
    assert "Two-factor sign-in was turned off" in subjects
    assert not any(link in each.text for each in mail)


async def test_passkeys_are_kept_by_mail_and_removed_by_the_operator(
    ada: Member, recovery: Recovery, passkeys: PasskeyService
) -> None:
    """A passkey is a second factor: only the operator's link lets the password alone sign in."""
    options = await passkeys.creation_options(Owner(ada.account_id, "ada", "Ada"), HOME)
    await passkeys.add(ada.account_id, "Phone", Authenticator().make(options), HOME)
    await recovery.use(await recovery.link())
    assert (await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)).stage == "awaits_code"
    await recovery.use(await recovery.operator_link(), PASSWORD)
    assert (await ada.sign_in.sign_in("ada", PASSWORD, HOME)).stage == "signed_in"


async def test_the_operators_link_works_without_a_factor_and_without_a_proven_email(
    people: People, recovery: Recovery
) -> None:
    """There may be nothing to remove, and nobody to write to."""
    await people.sign_up("ada")
    await recovery.use(await recovery.operator_link())
    await people.sign_in.sign_in("ada", NEW_PASSWORD, HOME)


@pytest.mark.parametrize("seconds", [LINK_SECONDS - 1, LINK_SECONDS])
@pytest.mark.parametrize("by_operator", [False, True])
async def test_a_link_is_valid_for_an_hour(
    ada: Member, recovery: Recovery, clock: ManualClock, seconds: int, *, by_operator: bool
) -> None:
    """To the second."""
    link = await (recovery.operator_link() if by_operator else recovery.link())
    clock.advance(seconds=seconds)
    if seconds < LINK_SECONDS:
        await recovery.service.set_password(link, NEW_PASSWORD, HOME)
    else:
        with pytest.raises(ResetLinkEnded):
            await recovery.service.set_password(link, NEW_PASSWORD, HOME)
    used = PASSWORD if seconds == LINK_SECONDS else NEW_PASSWORD
    await ada.sign_in.sign_in("ada", used, HOME)


async def test_a_new_link_ends_those_before_it(ada: Member, recovery: Recovery) -> None:
    """The newest one works, and its use ends all others.

    A stranger who asks for a link by mail does not end the operator's link.
    """
    first = await recovery.link()
    second = await recovery.link()
    with pytest.raises(ResetLinkEnded):
        await recovery.use(first)
    by_operator = await recovery.operator_link()
    with pytest.raises(ResetLinkEnded):
        await recovery.use(second)
    third = await recovery.link()
    await recovery.use(by_operator)
    with pytest.raises(ResetLinkEnded):
        await recovery.use(third)
    await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)


async def test_a_new_password_or_email_ends_the_links(people: People, recovery: Recovery) -> None:
    """A link in the old mailbox must not work once the account has another email."""
    ada = await people.sign_up("ada")
    await people.prove(ada)
    link = await recovery.link()
    await people.sign_in.change_password(ada, PASSWORD, NEW_PASSWORD, HOME)
    with pytest.raises(ResetLinkEnded):
        await recovery.use(link)

    link = await recovery.link()
    await people.emails.change(ada, NEW_PASSWORD, "new@example.com", HOME)
    await recovery.service.find_link(link, HOME)
    await people.prove(ada, "new@example.com")
    with pytest.raises(ResetLinkEnded):
        await recovery.use(link)


async def test_a_link_used_twice_at_once_sets_one_password(ada: Member, recovery: Recovery) -> None:
    """One of two passwords is set; the other caller learns that the link no longer works."""
    link = await recovery.link()
    passwords = [f"another horse battery {number}" for number in range(4)]
    results = await asyncio.gather(
        *(recovery.use(link, each) for each in passwords), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == [
        "NoneType",
        *["ResetLinkEnded"] * 3,
    ]
    winner = passwords[results.index(None)]
    await ada.sign_in.sign_in("ada", winner, HOME)


@pytest.mark.one_engine
async def test_a_password_that_is_too_short_leaves_the_link(
    ada: Member, recovery: Recovery
) -> None:
    """The person can choose another one."""
    link = await recovery.link()
    with pytest.raises(InvalidField) as refused:
        await recovery.use(link, "short")
    assert refused.value.param == "new_password"
    await recovery.use(link)
    await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)


async def test_only_the_hash_of_a_link_is_stored(
    ada: Member, recovery: Recovery, raw_sql: RawSql
) -> None:
    """The secret is in the message alone."""
    assert ada.account_id
    link = await recovery.link()
    assert len(link) > 40
    [(stored,)] = await raw_sql.run(LINKS)
    assert link not in stored
    assert link[3:] not in stored


async def test_ten_links_a_day_are_sent_for_an_account(
    ada: Member, recovery: Recovery, clock: ManualClock
) -> None:
    """From all addresses together; nobody is told, and the last link goes on working.

    A browser that the account knows has ten of its own, so strangers cannot use them up.
    """
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    for number in range(RESET_LIMIT.failures + 5):
        await recovery.ask(("ada", EMAIL)[number % 2], EventSource(f"198.51.100.{number}", ""))
    sent = await recovery.mail()
    assert len(sent) == RESET_LIMIT.failures
    await recovery.service.find_link(sent[0], HOME)

    await recovery.ask(source=LAPTOP)

    sent = await recovery.mail()
    assert len(sent) == RESET_LIMIT.failures + 1
    clock.advance(seconds=RESET_LIMIT.window_seconds)
    await recovery.ask()
    assert len(await recovery.mail()) == RESET_LIMIT.failures + 2


@pytest.mark.one_engine
async def test_one_address_can_ask_for_so_many_links(ada: Member, recovery: Recovery) -> None:
    """Whether the accounts exist or not; another address is not affected."""
    assert ada.account_id
    for number in range(MAIL_ADDRESS_LIMIT.failures):
        await recovery.service.send_link(f"@nobody_{number % 30}", OFFICE)
    for name in ("@ada", "@nobody"):
        with pytest.raises(TooManyAttempts, match="Too many messages were requested"):
            await recovery.service.send_link(name, OFFICE)
    await recovery.ask(source=LAPTOP)
    assert len(await recovery.mail()) == 1


async def test_guessing_links_is_limited_by_address(ada: Member, recovery: Recovery) -> None:
    """Opening a wrong link counts like using it; a right one works from another address."""
    link = await recovery.link()
    wrong = f"rl_{'0' * 40}"
    for _ in range(LINK_LIMIT.failures // 2):
        with pytest.raises(ResetLinkEnded):
            await recovery.service.find_link(wrong, HOME)
        with pytest.raises(ResetLinkEnded):
            await recovery.service.set_password(wrong, NEW_PASSWORD, HOME)
    with pytest.raises(TooManyAttempts, match="Too many links did not work"):
        await recovery.service.find_link(wrong, HOME)
    await recovery.use(link)
    await ada.sign_in.sign_in("ada", NEW_PASSWORD, OFFICE)


async def test_links_that_have_expired_are_deleted(
    ada: Member,
    recovery: Recovery,
    database: Database,
    clock: ManualClock,
    email_proofs: EmailProofs,
    raw_sql: RawSql,
) -> None:
    """Also those that nobody has got."""
    assert ada.account_id
    await recovery.ask("@nobody")
    await recovery.link()
    assert len(await raw_sql.run(LINKS)) == 2
    retention = RetentionService(database, clock, email_proofs)
    clock.advance(seconds=LINK_SECONDS - 1)
    await retention.sweep()
    assert len(await raw_sql.run(LINKS)) == 1
    clock.advance(seconds=1)
    await retention.sweep()
    assert await raw_sql.run(LINKS) == []
