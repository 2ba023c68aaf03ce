"""Passwords are hashed on threads, a few at a time, with a limited queue."""

import asyncio
import threading

import pytest

from ousel.people import passwords
from ousel.people.passwords import PasswordService, SignInBusy
from tests.people.members import HOME
from tests.support.waiting import assert_none_ends, until


async def test_only_a_few_are_hashed_at_once_and_the_queue_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two at a time take the memory they need; one more than may wait is told to come again."""
    going, may_finish, most = 0, threading.Event(), 0
    counting = threading.Lock()

    def slow(_stored: str | None, _password: str) -> bool:
        nonlocal going, most
        with counting:
            going += 1
            most = max(most, going)
        may_finish.wait(10)
        with counting:
            going -= 1
        return True

    monkeypatch.setattr(passwords, "_verify", slow)
    password_service = PasswordService()
    waiting = [
        asyncio.create_task(password_service.matches(None, "", f"192.0.2.{number}"))
        for number in range(passwords.HASHES_WAITING_MAX)
    ]
    await until(lambda: most == passwords.HASHES_AT_ONCE)
    with pytest.raises(SignInBusy) as refused:
        await password_service.matches(None, "", HOME.ip_address)
    assert refused.value.retry_after_seconds
    may_finish.set()
    assert all(await asyncio.gather(*waiting))
    assert most == passwords.HASHES_AT_ONCE
    assert await password_service.matches(None, "", HOME.ip_address)


async def test_a_few_addresses_cannot_fill_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many requests from each of five networks leave room in the queue for others."""
    may_finish = threading.Event()
    started: list[int] = []

    def slow(*_: object) -> bool:
        started.append(1)
        return may_finish.wait(10)

    monkeypatch.setattr(passwords, "_verify", slow)
    password_service = PasswordService()
    crowd = [
        asyncio.create_task(password_service.matches(None, "", f"2001:db8:0:{network}::{number:x}"))
        for network in range(5)
        for number in range(passwords.HASHES_PER_ADDRESS_MAX)
    ]
    await until(lambda: started)
    with pytest.raises(SignInBusy):
        await password_service.matches(None, "", "2001:db8::ffff")
    another = asyncio.create_task(password_service.matches(None, "", HOME.ip_address))
    await assert_none_ends(another, seconds=0.05)
    may_finish.set()
    assert await another
    assert all(await asyncio.gather(*crowd))
    assert await password_service.matches(None, "", "2001:db8::ffff")


async def test_a_caller_that_gives_up_does_not_make_room_for_another_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread cannot be stopped, so its turn ends with it, and no more memory is taken."""
    may_finish, started = threading.Event(), []

    def slow(*_: object) -> bool:
        started.append(1)
        return may_finish.wait(10)

    monkeypatch.setattr(passwords, "_verify", slow)
    password_service = PasswordService()
    callers = [
        asyncio.create_task(password_service.matches(None, "", HOME.ip_address)) for _ in range(9)
    ]
    await until(lambda: len(started) == passwords.HASHES_AT_ONCE)
    for caller in callers[:-1]:
        caller.cancel()
    await assert_none_ends(callers[-1], seconds=0.05)

    assert len(started) == passwords.HASHES_AT_ONCE
    may_finish.set()
    assert await callers[-1]
    assert len(started) == passwords.HASHES_AT_ONCE + 1


async def test_a_hash_matches_its_password_alone() -> None:
    """Equal passwords have different hashes, and a broken hash matches nothing."""
    password_service = PasswordService()
    first, second = (
        await password_service.hash_password("correct horse"),
        await password_service.hash_password("correct horse"),
    )
    assert first != second
    assert await password_service.matches(first, "correct horse", HOME.ip_address)
    assert not await password_service.matches(first, "correct horsf", HOME.ip_address)
    assert not await password_service.matches("not a hash", "correct horse", HOME.ip_address)
    assert not await password_service.matches(None, "nobody has this password", HOME.ip_address)
