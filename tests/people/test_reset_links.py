"""Links that set a new password: each works once, for an hour, and is stored as a hash."""

import asyncio

import pytest

from ousel.database.port import Database
from ousel.emails.service import PendingConfirmations
from ousel.people.attempts import TooManyAttempts
from ousel.people.recovery import ResetLinkEnded
from ousel.people.retention import RetentionService
from ousel.people.rules import LINK_LIMIT
from ousel.resets.rules import LINK_SECONDS
from tests.people.mailboxes import People
from tests.people.members import HOME, OFFICE, Member
from tests.people.recoveries import NEW_PASSWORD, Recovery
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD

LINKS = "SELECT link_hash FROM reset_links"


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
    await people.confirm(ada)
    link = await recovery.link()
    await people.sign_in.change_password(ada, PASSWORD, NEW_PASSWORD, HOME)
    with pytest.raises(ResetLinkEnded):
        await recovery.use(link)

    link = await recovery.link()
    await people.emails.change(ada, NEW_PASSWORD, "new@example.com", HOME)
    await recovery.service.find_link(link, HOME)
    await people.confirm(ada, "new@example.com")
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


async def test_guessing_links_is_limited_by_address(ada: Member, recovery: Recovery) -> None:
    """Opening a wrong link counts like using it; a right one works from another address."""
    link = await recovery.link()
    wrong = f"rl_{'0' * 40}"
    for _ in range(LINK_LIMIT.attempts_max // 2):
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
    pending_confirmations: PendingConfirmations,
    raw_sql: RawSql,
) -> None:
    """Also those that nobody has got."""
    assert ada.account_id
    await recovery.ask("@nobody")
    await recovery.link()
    assert len(await raw_sql.run(LINKS)) == 2
    retention = RetentionService(database, clock, pending_confirmations)
    clock.advance(seconds=LINK_SECONDS - 1)
    await retention.sweep()
    assert len(await raw_sql.run(LINKS)) == 1
    clock.advance(seconds=1)
    await retention.sweep()
    assert await raw_sql.run(LINKS) == []
