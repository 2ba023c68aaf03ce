"""Signing up, in and out, and how long that lasts."""

import asyncio
import contextlib
from typing import Any

import pytest

from ousel.accounts.service import IdentifierInUse, NewHolder
from ousel.database.port import Database, Transaction
from ousel.kernel.errors import InvalidField
from ousel.people import store
from ousel.people.passwords import PasswordService
from ousel.people.rules import SESSION_SECONDS, Session
from ousel.people.second_factor import SecondFactorService
from ousel.people.sign_in import SignInService, WrongPassword
from tests.people.members import HOME, OFFICE, Member
from tests.support.accounts import person
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD

NEW_PASSWORD = "a better horse battery"
OTHER_PASSWORD = "another horse battery"
WAIT_SECONDS = 0.5


@pytest.mark.parametrize("identifier", ["ada", "@ada", " ADA ", "Ada@Example.com"])
async def test_every_spelling_of_a_name_signs_in(ada: Member, identifier: str) -> None:
    """A username with or without @, and an email, in any case, name the same account."""
    signed_in = await ada.sign_in.sign_in(identifier, PASSWORD, HOME)
    assert (await ada.person(signed_in.secret)).account_id == ada.account_id


@pytest.mark.parametrize(
    ("identifier", "password"),
    [
        ("ada", "correct horse batterz"),
        ("ada", ""),
        ("nobody", PASSWORD),
        ("", ""),
        ("ada@example.org", PASSWORD),
        ("a" * 10_000, PASSWORD),
    ],
)
async def test_every_wrong_sign_in_gets_the_same_refusal(
    ada: Member, identifier: str, password: str
) -> None:
    """The refusal does not tell whether the account or the password is wrong."""
    with pytest.raises(WrongPassword) as refused:
        await ada.sign_in.sign_in(identifier, password, HOME)
    assert refused.value.detail == "The email, username or password is not right."


async def test_the_system_account_has_no_password(sign_in: SignInService) -> None:
    """Nobody signs in to the account that money is issued from."""
    with pytest.raises(WrongPassword):
        await sign_in.sign_in("ousel", "nobody has this password", HOME)


async def test_nobody_signs_in_to_an_account_without_a_password(
    sign_in: SignInService, database: Database, clock: ManualClock
) -> None:
    """An account without a password accepts none."""
    await person(database, "grace", clock=clock)
    for password in ("", "nobody has this password"):
        with pytest.raises(WrongPassword):
            await sign_in.sign_in("grace", password, HOME)


async def test_a_session_ends_after_thirty_days(ada: Member, clock: ManualClock) -> None:
    """The last microsecond of a session still counts; the next does not."""
    signed_in = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    clock.advance(seconds=SESSION_SECONDS, micros=-1)
    assert await ada.find(signed_in.secret) is not None
    clock.advance(micros=1)
    assert await ada.find(signed_in.secret) is None


async def test_signing_out_ends_one_session(ada: Member) -> None:
    """Whoever kept the cookie of a session that was signed out cannot use it."""
    here = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    there = await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
    session_hash = (await ada.person(here.secret)).session_hash
    await ada.sign_in.sign_out(ada.account_id, session_hash, HOME)
    assert await ada.find(here.secret) is None
    assert await ada.find(there.secret) is not None


async def test_an_ended_session_stays_ended_on_a_host_whose_clock_is_behind(
    ada: Member, clock: ManualClock
) -> None:
    """Signed out, or ended by a change of the password, on a host whose clock is ahead."""
    sessions = [await ada.sign_in.sign_in("ada", PASSWORD, HOME) for _ in range(2)]
    session_hash = (await ada.person(sessions[0].secret)).session_hash
    await ada.sign_in.sign_out(ada.account_id, session_hash, HOME)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, HOME)
    clock.advance(seconds=-3600)
    assert [await ada.find(session.secret) for session in sessions] == [None, None]


async def test_a_changed_password_ends_every_other_session(ada: Member) -> None:
    """Only the session that changed the password goes on, and only the new password works."""
    here = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    there = await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
    source = await ada.source(here)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, source)
    assert await ada.find(here.secret) is not None
    assert await ada.find(there.secret) is None
    with pytest.raises(WrongPassword):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)


@pytest.mark.parametrize(
    ("current", "new", "param"),
    [
        ("wrong horse battery", NEW_PASSWORD, "current_password"),
        (PASSWORD, "short", "new_password"),
    ],
)
async def test_an_invalid_change_keeps_the_password(
    ada: Member, current: str, new: str, param: str
) -> None:
    """The refusal names the field, and the old password still works."""
    with pytest.raises(InvalidField) as refused:
        await ada.sign_in.change_password(ada.account_id, current, new, HOME)
    assert refused.value.param == param
    await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_a_username_belongs_to_one_account(ada: Member) -> None:
    """A second account cannot take a username, in whatever case."""
    holder = NewHolder(username="ADA", email="other@example.com", display_name="Other")
    with pytest.raises(IdentifierInUse):
        await ada.sign_in.sign_up(holder, PASSWORD, HOME)


async def test_signing_up_with_the_email_of_another_account_takes_nothing(ada: Member) -> None:
    """The answer tells nobody that the email is in use, and it still names the first account."""
    holder = NewHolder(username="eve", email="ADA@example.com", display_name="Eve")
    await ada.sign_in.sign_up(holder, "wicked horse battery", HOME)

    signed_in = await ada.sign_in.sign_in("ada@example.com", PASSWORD, HOME)

    assert (await ada.person(signed_in.secret)).username == "ada"


async def test_passwords_sessions_and_recovery_codes_are_stored_as_hashes(
    ada: Member, database_url: str
) -> None:
    """Whoever reads the database cannot sign in with what is there."""
    signed_in = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    await ada.turn_on_factor()
    async with RawSql(database_url) as raw_sql:
        kept = str(
            [
                await raw_sql.run(f"SELECT * FROM {table}")
                for table in ("holders", "sessions", "recovery_codes", "audit_events")
            ]
        )
    assert "$argon2id$" in kept
    for secret in (PASSWORD, signed_in.secret, *ada.recovery_codes):
        assert secret not in kept
        assert secret.replace("-", "") not in kept


async def test_a_sign_in_that_meets_a_password_change_is_refused(
    ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that is changed while it is being compared opens nothing afterwards."""
    compare = PasswordService.matches

    async def slowly(self: PasswordService, *given: Any) -> bool:
        is_right = await compare(self, *given)
        monkeypatch.setattr(PasswordService, "matches", compare)
        await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, OFFICE)
        return is_right

    monkeypatch.setattr(PasswordService, "matches", slowly)
    with pytest.raises(WrongPassword):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_of_two_concurrent_password_changes_one_succeeds(
    ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second change is refused, because its old password is no longer the current one."""
    compared = asyncio.Barrier(2)
    compare = PasswordService.matches

    async def together(self: PasswordService, *given: Any) -> bool:
        is_right = await compare(self, *given)
        await compared.wait()
        return is_right

    sessions = [await ada.sign_in.sign_in("ada", PASSWORD, source) for source in (HOME, OFFICE)]
    sources = [await ada.source(session) for session in sessions]
    monkeypatch.setattr(PasswordService, "matches", together)
    outcomes = await asyncio.gather(
        *(
            ada.sign_in.change_password(ada.account_id, PASSWORD, new, source)
            for new, source in zip((NEW_PASSWORD, OTHER_PASSWORD), sources, strict=True)
        ),
        return_exceptions=True,
    )
    monkeypatch.setattr(PasswordService, "matches", compare)

    (refused,) = (outcome for outcome in outcomes if outcome is not None)
    assert isinstance(refused, InvalidField)
    assert refused.param == "current_password"
    first = outcomes.index(None)
    found = [await ada.find(session.secret) for session in sessions]
    assert [person is not None for person in found] == [first == 0, first == 1]
    kinds = [event.kind for event in await ada.events()]
    assert (kinds.count("password_changed"), kinds.count("sign_in_failed")) == (1, 1)


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize("with_code", [False, True])
async def test_a_session_opened_during_a_password_change_ends_with_it(
    ada: Member, monkeypatch: pytest.MonkeyPatch, *, with_code: bool
) -> None:
    """A concurrent sign-in either commits before the change, which ends it, or is refused."""
    owed, here = None, await ada.source(await ada.sign_in.sign_in("ada", PASSWORD, HOME))
    if with_code:
        await ada.turn_on_factor()
        owed = await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
    opening, changed = asyncio.Event(), asyncio.Event()
    add = store.add_session

    async def slowly(transaction: Transaction, session: Session) -> None:
        opening.set()
        with contextlib.suppress(TimeoutError):  # the change waits for this very transaction
            await asyncio.wait_for(changed.wait(), WAIT_SECONDS)
        await add(transaction, session)

    monkeypatch.setattr(store, "add_session", slowly)
    signing = asyncio.create_task(
        ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
        if owed is None
        else ada.sign_in.sign_in_with_code(owed.secret, ada.code(), OFFICE)
    )
    await opening.wait()
    await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, here)
    changed.set()
    with contextlib.suppress(WrongPassword):
        assert await ada.find((await signing).secret) is None


async def test_a_code_sent_after_a_password_change_is_refused(
    ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change ends a sign-in that still needed its code, even while the code is checked."""
    here = await ada.source(await ada.sign_in.sign_in("ada", PASSWORD, HOME))
    await ada.turn_on_factor()
    owed = await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)
    look = SecondFactorService.with_code

    async def later(self: SecondFactorService, *given: Any) -> Any:
        monkeypatch.setattr(SecondFactorService, "with_code", look)
        await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, here)
        return await look(self, *given)

    monkeypatch.setattr(SecondFactorService, "with_code", later)
    with pytest.raises(WrongPassword):
        await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), OFFICE)
