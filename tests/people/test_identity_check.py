"""Identity checks: a session is trusted for ten minutes after a password or a code."""

import pytest

from ousel.database.port import Database
from ousel.kernel.errors import IdentityCheckNeeded, InvalidField
from ousel.passkeys.rules import Owner
from ousel.people.account_settings import AccountSettingsService
from ousel.people.attempts import TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.identity_check import IdentityCheckService
from ousel.people.passkeys import PasskeyService
from ousel.people.rules import IDENTITY_CHECK_SECONDS, PAIR_LIMIT
from ousel.people.sign_in import NewSession
from tests.people.members import HOME, LAPTOP, Member
from tests.support.authenticator import Authenticator
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD


@pytest.fixture
def checks(
    database: Database, clock: ManualClock, ada: Member, passkeys: PasskeyService
) -> IdentityCheckService:
    """The identity checks of a fresh database."""
    return IdentityCheckService(
        database, clock, ada.sign_in.password_check, ada.second_factors, passkeys
    )


@pytest.fixture
async def session(ada: Member) -> NewSession:
    """Ada's session, just opened."""
    return await ada.sign_in.sign_in("ada", PASSWORD, HOME)


@pytest.fixture
async def source(ada: Member, session: NewSession) -> EventSource:
    """Where the requests of Ada's session come from."""
    return await ada.source(session)


async def is_recent(ada: Member, session: NewSession) -> bool:
    """Return whether the session needs no check now."""
    return (await ada.person(session.secret)).is_recently_checked


async def test_signing_in_counts_for_ten_minutes(
    ada: Member, session: NewSession, clock: ManualClock
) -> None:
    """To the microsecond."""
    clock.advance(seconds=IDENTITY_CHECK_SECONDS - 1)
    assert await is_recent(ada, session)
    clock.advance(seconds=1)
    assert not await is_recent(ada, session)


async def test_the_password_counts_for_its_own_session(
    ada: Member,
    session: NewSession,
    source: EventSource,
    checks: IdentityCheckService,
    clock: ManualClock,
) -> None:
    """A thief's session gains nothing from what the holder types elsewhere."""
    other = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    clock.advance(seconds=IDENTITY_CHECK_SECONDS)

    assert await checks.ways(ada.account_id) == ["password"]
    assert not await checks.check("password", ada.account_id, "wrong horse battery", source)
    assert not await is_recent(ada, session)
    assert await checks.check("password", ada.account_id, PASSWORD, source)

    assert await is_recent(ada, session)
    assert not await is_recent(ada, other)
    assert "sign_in_failed" in {event.kind for event in await ada.events()}


async def test_with_a_second_factor_only_a_code_counts(
    ada: Member,
    session: NewSession,
    source: EventSource,
    checks: IdentityCheckService,
    clock: ManualClock,
) -> None:
    """Each code counts once; the password alone does not count."""
    await ada.turn_on_factor()
    clock.advance(seconds=IDENTITY_CHECK_SECONDS)

    assert await checks.ways(ada.account_id) == ["code"]
    with pytest.raises(IdentityCheckNeeded):
        await checks.check("password", ada.account_id, PASSWORD, source)
    assert not await checks.check("code", ada.account_id, "000000", source)
    assert not await is_recent(ada, session)
    code = ada.code()
    assert await checks.check("code", ada.account_id, code, source)
    assert await is_recent(ada, session)

    assert not await checks.check("code", ada.account_id, code, source)
    assert await checks.check("code", ada.account_id, ada.recovery_codes[0], source)
    assert "recovery_code_used" in {event.kind for event in await ada.events()}


async def test_a_code_of_a_proposed_factor_does_not_count(
    ada: Member,
    session: NewSession,
    source: EventSource,
    checks: IdentityCheckService,
    clock: ManualClock,
) -> None:
    """Whoever saw the secret of a factor that is not on proves nothing, and turns on nothing."""
    await ada.propose_factor()
    clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    with pytest.raises(IdentityCheckNeeded):
        await checks.check("code", ada.account_id, ada.code(), source)
    assert not await is_recent(ada, session)
    assert not await ada.second_factors.has_authenticator_app(ada.account_id)


async def test_with_a_second_factor_a_new_password_needs_a_recent_code_too(
    ada: Member, source: EventSource, checks: IdentityCheckService, clock: ManualClock
) -> None:
    """Nothing changes without it; a wrong password is refused as such, also with it."""
    await ada.turn_on_factor()
    clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    change = (ada.account_id, PASSWORD, "a better horse battery", source)

    with pytest.raises(IdentityCheckNeeded):
        await ada.sign_in.change_password(*change)
    assert await checks.check("code", ada.account_id, ada.code(), source)
    with pytest.raises(InvalidField):
        await ada.sign_in.change_password(ada.account_id, "wrong", *change[2:])
    await ada.sign_in.change_password(*change)


async def test_a_password_that_a_page_asks_for_counts_too(
    ada: Member, session: NewSession, source: EventSource, clock: ManualClock
) -> None:
    """Whoever has just changed the password is not asked for it at once."""
    clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    await ada.sign_in.change_password(ada.account_id, PASSWORD, "a better horse battery", source)
    assert await is_recent(ada, session)


async def test_guessing_passwords_is_limited(
    ada: Member, source: EventSource, checks: IdentityCheckService
) -> None:
    """Wrong ones count together with failed sign-ins; at the limit, the right one fails too."""
    for _ in range(PAIR_LIMIT.attempts_max):
        assert not await checks.check("password", ada.account_id, "wrong", source)

    with pytest.raises(TooManyAttempts):
        await checks.check("password", ada.account_id, PASSWORD, source)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in("ada", PASSWORD, HOME)


async def test_guessing_codes_is_limited(
    ada: Member, source: EventSource, checks: IdentityCheckService
) -> None:
    """Wrong ones count together with those of signing in; at the limit, the right one fails too."""
    await ada.turn_on_factor()
    for _ in range(PAIR_LIMIT.attempts_max):
        assert not await checks.check("code", ada.account_id, "000000", source)

    with pytest.raises(TooManyAttempts):
        await checks.check("code", ada.account_id, ada.code(), source)
    waiting = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    with pytest.raises(TooManyAttempts):
        await ada.sign_in.sign_in_with_code(waiting.secret, ada.code(), HOME)


async def test_a_session_that_has_ended_is_not_checked(
    ada: Member, source: EventSource, checks: IdentityCheckService, database: Database
) -> None:
    """A code that arrives after the sign-out is right, but confirms nothing."""
    await ada.turn_on_factor()
    settings = AccountSettingsService(database, ada.clock)
    await settings.end_session(ada.account_id, source.session_hash, HOME)
    assert not await checks.check("code", ada.account_id, ada.code(), source)


async def test_a_passkey_counts_and_replaces_the_password(
    ada: Member,
    session: NewSession,
    source: EventSource,
    checks: IdentityCheckService,
    passkeys: PasskeyService,
) -> None:
    """The code is then a recovery code; neither the password nor an unconfirmed app counts."""
    phone = Authenticator()
    options = await passkeys.creation_options(Owner(ada.account_id, "ada", "Ada"), source)
    codes = await passkeys.add(ada.account_id, "Phone", phone.make(options), source)
    assert codes is not None
    await ada.propose_factor()
    ada.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    assert await checks.ways(ada.account_id) == ["passkey", "code"]
    with pytest.raises(IdentityCheckNeeded):
        await checks.check("password", ada.account_id, PASSWORD, source)
    assert not await checks.check("code", ada.account_id, ada.code(), source)
    assert not await is_recent(ada, session)

    asked = await checks.passkey_options(ada.account_id, source)
    assert await checks.check("passkey", ada.account_id, phone.sign(asked), source)

    assert await is_recent(ada, session)
    ada.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    assert await checks.check("code", ada.account_id, codes[0], source)
    assert await is_recent(ada, session)
