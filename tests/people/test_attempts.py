"""Limits on wrong passwords: how many are allowed, and how long the block lasts."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from ousel.accounts.service import IdentifierInUse, NewHolder
from ousel.database.port import Database
from ousel.database.statements import Statement
from ousel.kernel.errors import InvalidField
from ousel.people.attempts import AttemptCounter, TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.passwords import HASHES_PER_ADDRESS_MAX
from ousel.people.rules import (
    ACCOUNT_LIMIT,
    BROWSER_LIMIT,
    CODE_LIMIT,
    IP_ADDRESS_LIMIT,
    PAIR_LIMIT,
    SIGN_UP_LIMIT,
)
from ousel.people.sign_in import SignInService, WrongCode, WrongPassword
from tests.people.mailboxes import People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.people.recorded_statements import record_statements
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD

GUESSES = 14  # of each kind; ten are checked

SUBJECTS = Statement("whose failures are counted", "SELECT subject FROM sign_in_failures")


async def fail(sign_in: SignInService, name: str, source: EventSource, times: int) -> None:
    """Type a wrong password so many times."""
    for _ in range(times):
        with pytest.raises(WrongPassword):
            await sign_in.sign_in(name, "wrong horse battery", source)


async def test_ten_failures_block_an_account_for_an_address(
    ada: Member, clock: ManualClock
) -> None:
    """Even the right password is refused there, until the quarter of an hour is over."""
    await fail(ada.sign_in, "ada", HOME, PAIR_LIMIT.attempts_max)
    clock.advance(seconds=60)
    with pytest.raises(TooManyAttempts) as refused:
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    assert refused.value.retry_after_seconds == PAIR_LIMIT.window_seconds - 60
    assert refused.value.detail == "Too many attempts failed. Try again in 14 minutes."
    clock.advance(seconds=PAIR_LIMIT.window_seconds - 60 - 1)
    with pytest.raises(TooManyAttempts, match="in 1 second\\."):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    clock.advance(seconds=1)
    await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_other_addresses_are_not_blocked(ada: Member) -> None:
    """Whoever guesses cannot lock the holder out."""
    await fail(ada.sign_in, "ada", HOME, PAIR_LIMIT.attempts_max)
    await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)


@pytest.mark.one_engine
async def test_spellings_of_a_name_are_counted_together(ada: Member) -> None:
    """An @ or a capital letter does not buy another ten guesses."""
    for name in ("ada", "@ada", " ADA", "@Ada "):
        await fail(ada.sign_in, name, HOME, 2)
    await fail(ada.sign_in, "ada", HOME, PAIR_LIMIT.attempts_max - 8)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("@ADA", PASSWORD, HOME)


async def test_the_names_of_an_account_are_counted_together(ada: Member) -> None:
    """Its username and its email do not buy ten guesses each; nor does a change of its password."""
    await fail(ada.sign_in, "ada", HOME, 4)
    await fail(ada.sign_in, "ada@example.com", HOME, 4)
    for _ in range(PAIR_LIMIT.attempts_max - 8):
        with pytest.raises(InvalidField):
            await ada.sign_in.change_password(ada.account_id, "wrong", "new horse battery", HOME)
    for name in ("ada", "Ada@Example.com"):
        with pytest.raises(TooManyAttempts):
            await ada.sign_in.sign_in(name, PASSWORD, HOME)
    await ada.sign_in.sign_in("ada@example.com", PASSWORD, OFFICE)


@pytest.mark.one_engine
async def test_the_right_password_does_not_reset_the_count_of_wrong_codes(ada: Member) -> None:
    """Sending the right password again allows no further guesses at codes."""
    here = await ada.source(await ada.sign_in.sign_in("ada", PASSWORD, HOME))
    await ada.turn_on_factor()
    for _ in range(PAIR_LIMIT.attempts_max):
        owed = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
        with pytest.raises(WrongCode):
            await ada.sign_in.sign_in_with_code(owed.secret, "000000", HOME)
    owed = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, "new horse battery", here)
    owed = await ada.sign_in.sign_in("ada", "new horse battery", HOME)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), HOME)


@pytest.mark.one_engine
async def test_a_limit_runs_the_same_queries_for_known_and_unknown_names(
    ada: Member, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once blocked, no password is compared, so the queries must not reveal who has an account."""
    for number in range(IP_ADDRESS_LIMIT.attempts_max):
        await fail(ada.sign_in, f"nobody_{number}", HOME, 1)
    asked = record_statements(monkeypatch, database, "read")
    told = {}
    for name in ("ada", "ada@example.com", "nobody", "nobody@example.com"):
        asked.clear()
        with pytest.raises(TooManyAttempts) as refused:
            await ada.sign_in.sign_in(name, PASSWORD, HOME)
        told[name] = (refused.value.detail, tuple(asked))
    assert len(set(told.values())) == 1


async def test_unknown_names_are_limited_as_known_ones(ada: Member) -> None:
    """The limit does not tell whether there is an account."""
    await fail(ada.sign_in, "nobody", HOME, PAIR_LIMIT.attempts_max)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("nobody", PASSWORD, HOME)


async def test_fifty_failures_block_an_address(ada: Member) -> None:
    """Whoever tries many accounts from one address is stopped for all of them."""
    for number in range(IP_ADDRESS_LIMIT.attempts_max):
        await fail(ada.sign_in, f"nobody_{number}", HOME, 1)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)


@pytest.mark.one_engine
async def test_the_addresses_of_one_ipv6_customer_are_counted_together(ada: Member) -> None:
    """A provider gives each customer more addresses than there are guesses to be made."""
    for number in range(IP_ADDRESS_LIMIT.attempts_max):
        await fail(ada.sign_in, f"nobody_{number}", EventSource(f"2001:db8::{number:x}", ""), 1)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, EventSource("2001:db8::ffff:1", ""))
    await ada.sign_in.sign_in("ada", PASSWORD, EventSource("2001:db8:0:1::1", ""))


@pytest.mark.slow
@pytest.mark.one_engine
async def test_sign_ups_from_one_address_are_limited(ada: Member, clock: ManualClock) -> None:
    """Names that are taken count as well, which keeps them from being found out by the thousand."""
    grace = NewHolder(username="grace", email="grace@example.com", display_name="Grace")
    taken = msgspec.structs.replace(grace, username="ada")
    for _ in range(SIGN_UP_LIMIT.attempts_max - 1):
        with pytest.raises(IdentifierInUse):
            await ada.sign_in.sign_up(taken, PASSWORD, HOME)
    with pytest.raises(InvalidField):  # what cannot be a name costs nothing, and is not counted
        await ada.sign_in.sign_up(msgspec.structs.replace(grace, email="grace"), PASSWORD, OFFICE)
    for holder in (taken, grace):
        with pytest.raises(TooManyAttempts, match="accounts were requested"):
            await ada.sign_in.sign_up(holder, PASSWORD, HOME)
    await ada.sign_in.sign_up(grace, PASSWORD, OFFICE)
    await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    clock.advance(seconds=SIGN_UP_LIMIT.window_seconds)
    with pytest.raises(IdentifierInUse):
        await ada.sign_in.sign_up(taken, PASSWORD, HOME)


@pytest.mark.slow
async def test_two_hundred_failures_block_an_account(ada: Member) -> None:
    """Guesses at one account from many addresses are limited too."""
    addresses = [EventSource(f"198.51.100.{number}", "") for number in range(20)]
    for address in addresses:
        await fail(ada.sign_in, "ada", address, ACCOUNT_LIMIT.attempts_max // len(addresses))
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)


@pytest.mark.slow
@pytest.mark.one_engine
async def test_strangers_do_not_lock_out_a_browser_that_signed_in_before(ada: Member) -> None:
    """Guesses from everywhere block new browsers; the holder's own browser goes on."""
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    for number in range(20):
        source = EventSource(f"198.51.100.{number}", "")
        await fail(ada.sign_in, "ada", source, ACCOUNT_LIMIT.attempts_max // 20)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)

    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)


@pytest.mark.one_engine
async def test_thirty_wrong_codes_a_day_are_checked(
    ada: Member, people: People, clock: ManualClock
) -> None:
    """From all addresses, all known browsers and of all kinds together; then even right ones wait.

    While strangers guess, the holder can sign in from a known browser.
    """
    checked = 0
    for _ in range(GUESSES):
        checked += await guess_email_code(people, ada.account_id)
    await ada.turn_on_factor()
    laptops = [EventSource("", "", browser_hash=f"laptop {number}") for number in range(4)]
    for laptop in laptops:
        await sign_in_with_code(ada, laptop)
    for number in range(GUESSES):
        checked += await guess_code(ada, EventSource(f"198.51.100.{number}", ""))
    await sign_in_with_code(ada, laptops[0])
    for number in range(GUESSES):
        clock.advance(seconds=600)  # so that no limit of a quarter of an hour is reached
        checked += await guess_code(ada, laptops[number % 4])
    assert checked == 30
    owed = await ada.sign_in.sign_in("ada", PASSWORD, laptops[1])
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), laptops[1])


async def sign_in_with_code(ada: Member, source: EventSource) -> None:
    """Sign in with the password and the code of the authenticator app."""
    ada.pass_a_code()
    owed = await ada.sign_in.sign_in("ada", PASSWORD, source)
    await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), source)


async def guess_code(ada: Member, source: EventSource) -> bool:
    """Send the right password and a wrong code; return whether the code was checked."""
    owed = await ada.sign_in.sign_in("ada", PASSWORD, source)
    try:
        await ada.sign_in.sign_in_with_code(owed.secret, "wrong", source)
    except WrongCode:
        return True
    except TooManyAttempts:
        return False
    raise AssertionError("the code was accepted")


async def guess_email_code(people: People, account_id: str) -> bool:
    """Send a wrong code for a new email; return whether it was checked."""
    with suppress(TooManyAttempts):
        await people.emails.change(account_id, PASSWORD, "new@example.com", HOME)
    try:
        await people.emails.confirm_with_code(account_id, "wrong", HOME)
    except InvalidField as refused:
        return "not right" in refused.detail
    except TooManyAttempts:
        return False
    raise AssertionError("the code was accepted")


async def test_a_browser_that_signed_in_before_has_a_limit_of_its_own(ada: Member) -> None:
    """Somebody else at the same browser gets ten guesses, wherever they take it."""
    await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    await fail(ada.sign_in, "ada", LAPTOP, BROWSER_LIMIT.attempts_max)

    elsewhere = msgspec.structs.replace(LAPTOP, ip_address="192.0.2.77")
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, elsewhere)
    await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)


async def test_a_browser_is_known_for_its_own_account_only(ada: Member) -> None:
    """It counts as a stranger's for any other account, and after the password was changed."""
    grace = NewHolder(username="grace", email="grace@example.com", display_name="Grace")
    await ada.sign_in.sign_up(grace, PASSWORD, LAPTOP)
    opened = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    source = msgspec.structs.replace(HOME, session_hash=(await ada.source(opened)).session_hash)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, "another horse battery", source)

    await fail(ada.sign_in, "ada", LAPTOP, PAIR_LIMIT.attempts_max)

    same_address = msgspec.structs.replace(HOME, ip_address=LAPTOP.ip_address)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", "another horse battery", same_address)


async def test_a_success_resets_the_failures_before_it(ada: Member) -> None:
    """After nine typing errors, the right password resets the count."""
    for _ in range(3):
        await fail(ada.sign_in, "ada", HOME, PAIR_LIMIT.attempts_max - 1)
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)


@pytest.mark.one_engine
async def test_a_success_does_not_reset_failures_of_others(ada: Member) -> None:
    """Whoever has an account of their own cannot clear their address by signing in to it."""
    for number in range(IP_ADDRESS_LIMIT.attempts_max):
        await fail(ada.sign_in, f"nobody_{number}", HOME, 1)
        if number < IP_ADDRESS_LIMIT.attempts_max - 1:
            await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_concurrent_attempts_are_each_counted(ada: Member) -> None:
    """Of twenty wrong passwords in one burst, ten are compared; and a right one among the rest
    does not get in."""
    attempts = [
        ada.sign_in.sign_in("ada", f"wrong {number}", HOME)
        for number in range(HASHES_PER_ADDRESS_MAX)
    ]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    told = sum(isinstance(outcome, WrongPassword) for outcome in outcomes)
    assert told <= PAIR_LIMIT.attempts_max
    refused = sum(isinstance(outcome, TooManyAttempts) for outcome in outcomes)
    assert told + refused == HASHES_PER_ADDRESS_MAX
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_wrong_current_passwords_are_limited_too(ada: Member) -> None:
    """Whoever finds a browser signed in cannot guess the password there."""
    for _ in range(PAIR_LIMIT.attempts_max):
        with pytest.raises(InvalidField):
            await ada.sign_in.change_password(ada.account_id, "wrong", "new horse battery", HOME)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.change_password(ada.account_id, PASSWORD, "new horse battery", HOME)


async def test_a_failure_appears_in_the_account_history(ada: Member, clock: ManualClock) -> None:
    """The account's record says when, from where, by which device, and what was wrong."""
    clock.advance(seconds=1)
    await fail(ada.sign_in, "ada@example.com", OFFICE, 1)
    event = (await ada.events())[0]
    assert (event.kind, event.detail) == ("sign_in_failed", "Wrong password")
    assert (event.ip_address, event.device) == (OFFICE.ip_address, "Chrome on Windows")


async def test_a_password_typed_as_a_name_is_not_stored(ada: Member, database: Database) -> None:
    """The rows that count failures do not reveal what was typed."""
    await fail(ada.sign_in, "hunter2 is my password", HOME, 1)
    kept = await database.read(lambda transaction: transaction.fetch(SUBJECTS))
    assert len(kept) == 7  # beside those of the attempt, that of the sign-up and of its mail
    assert "hunter2" not in str(kept)


async def test_failures_are_swept_once_no_limit_counts_them(
    ada: Member, attempts: AttemptCounter, clock: ManualClock
) -> None:
    """Failures within a window stay; a day after it began, they are deleted."""
    await fail(ada.sign_in, "ada", HOME, PAIR_LIMIT.attempts_max)
    clock.advance(seconds=CODE_LIMIT.window_seconds)
    await fail(ada.sign_in, "grace", OFFICE, PAIR_LIMIT.attempts_max)
    assert await attempts.sweep() == 0
    clock.advance(seconds=1)
    assert await attempts.sweep() == 7  # those of the sign-up and of its mail among them
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("grace", PASSWORD, OFFICE)
