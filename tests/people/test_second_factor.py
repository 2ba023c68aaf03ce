"""Two-factor sign-in: codes that work once, and recovery codes in their place."""

import asyncio

import msgspec
import pytest

from ousel.kernel.errors import InvalidField
from ousel.mail.outbox import Outbox
from ousel.passkeys.rules import Owner
from ousel.people.attempts import TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.passkeys import PasskeyService
from ousel.people.rules import (
    AWAITS_CODE_SECONDS,
    CODE_LIMIT,
    CODE_STEP_SECONDS,
    PAIR_LIMIT,
    RECOVERY_CODES,
)
from ousel.people.sign_in import WrongCode, WrongPassword
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.support.authenticator import Authenticator
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD


@pytest.fixture
async def factored(ada: Member) -> Member:
    """Ada, with two-factor sign-in turned on."""
    await ada.turn_on_factor()
    return ada


async def sign_in_without_code(member: Member) -> str:
    """Return the secret of a sign-in that still owes a code."""
    signed_in = await member.sign_in.sign_in("ada", PASSWORD, HOME)
    assert signed_in.stage == "awaits_code"
    return signed_in.secret


async def test_a_password_alone_signs_nobody_in(factored: Member) -> None:
    """Between the password and the code, no page opens."""
    assert await factored.find(await sign_in_without_code(factored)) is None


async def test_password_and_code_sign_in(factored: Member) -> None:
    """The code ends the half-open session and opens another, under a new secret."""
    half_open = await sign_in_without_code(factored)
    signed_in = await factored.sign_in.sign_in_with_code(half_open, factored.code(), HOME)
    assert signed_in.secret != half_open
    assert await factored.find(signed_in.secret) is not None
    with pytest.raises(WrongPassword):
        await factored.sign_in.sign_in_with_code(half_open, factored.code(), HOME)


@pytest.mark.one_engine
@pytest.mark.parametrize("zero", ["\u0660", "\uff10"], ids=["Arabic", "full-width"])
async def test_a_code_may_be_typed_in_the_digits_of_any_script(factored: Member, zero: str) -> None:
    """Some keyboards write other digits than 0 to 9; recovery codes have digits too."""
    typed = {ord("0") + digit: ord(zero) + digit for digit in range(10)}
    for code in (factored.code(), factored.recovery_codes[0]):
        half_open = await sign_in_without_code(factored)
        signed_in = await factored.sign_in.sign_in_with_code(half_open, code.translate(typed), HOME)
        assert await factored.find(signed_in.secret) is not None


async def test_a_code_works_once(factored: Member, clock: ManualClock) -> None:
    """A code that was used is refused, though its time has not passed; the next one works."""
    code = factored.code()
    await factored.sign_in.sign_in_with_code(await sign_in_without_code(factored), code, HOME)
    second = await sign_in_without_code(factored)
    with pytest.raises(WrongCode):
        await factored.sign_in.sign_in_with_code(second, code, HOME)
    clock.advance(seconds=CODE_STEP_SECONDS)
    await factored.sign_in.sign_in_with_code(second, factored.code(), HOME)


async def test_one_code_sent_many_times_at_once_works_once(factored: Member) -> None:
    """Of ten sign-ins that race with the same code, one gets in."""
    secrets = [await sign_in_without_code(factored) for _ in range(5)]
    code = factored.code()
    outcomes = await asyncio.gather(
        *(factored.sign_in.sign_in_with_code(secret, code, HOME) for secret in secrets),
        return_exceptions=True,
    )
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    assert {type(each) for each in outcomes if isinstance(each, Exception)} == {WrongCode}


async def test_each_recovery_code_works_once(factored: Member) -> None:
    """Ten codes for ten sign-ins, however they are typed; then none is left."""
    assert len(set(factored.recovery_codes)) == RECOVERY_CODES
    for code in factored.recovery_codes:
        typed = f" {code.upper().replace('-', ' ')} "
        await factored.sign_in.sign_in_with_code(await sign_in_without_code(factored), typed, HOME)
        half_open = await sign_in_without_code(factored)
        with pytest.raises(WrongCode):
            await factored.sign_in.sign_in_with_code(half_open, code, HOME)
    kinds = [event.kind for event in await factored.events()]
    assert kinds.count("recovery_code_used") == RECOVERY_CODES


async def test_a_code_must_follow_within_ten_minutes(factored: Member, clock: ManualClock) -> None:
    """After that the sign-in begins again."""
    half_open = await sign_in_without_code(factored)
    clock.advance(seconds=AWAITS_CODE_SECONDS)
    with pytest.raises(WrongPassword, match="too long"):
        await factored.sign_in.sign_in_with_code(half_open, factored.code(), HOME)


async def test_guessing_codes_is_limited(factored: Member, clock: ManualClock) -> None:
    """After ten wrong codes from one address the right one is refused too, until a while later."""
    half_open = await sign_in_without_code(factored)
    for _ in range(PAIR_LIMIT.attempts_max):
        with pytest.raises(WrongCode):
            await factored.sign_in.sign_in_with_code(half_open, "000000", HOME)
    with pytest.raises(TooManyAttempts):
        await factored.sign_in.sign_in_with_code(half_open, factored.code(), HOME)
    clock.advance(seconds=CODE_LIMIT.window_seconds)
    await factored.sign_in.sign_in_with_code(
        await sign_in_without_code(factored), factored.code(), HOME
    )


async def test_guessing_codes_from_many_addresses_is_limited(factored: Member) -> None:
    """Ten guesses a day, however many addresses they come from; a known browser still signs in."""
    await factored.sign_in.sign_in_with_code(
        await sign_in_without_code(factored), factored.code(), LAPTOP
    )
    half_open = await sign_in_without_code(factored)
    for number in range(CODE_LIMIT.attempts_max):
        with pytest.raises(WrongCode):
            await factored.sign_in.sign_in_with_code(
                half_open, "000000", EventSource(f"198.51.100.{number}", "")
            )

    for stranger in (HOME, OFFICE):
        with pytest.raises(TooManyAttempts):
            await factored.sign_in.sign_in_with_code(half_open, factored.code(), stranger)
    factored.pass_a_code()
    await factored.sign_in.sign_in_with_code(half_open, factored.code(), LAPTOP)


async def test_concurrent_codes_are_each_counted(factored: Member) -> None:
    """A hundred concurrent guesses get no further than ten in a row."""
    half_open = await sign_in_without_code(factored)
    outcomes = await asyncio.gather(
        *(
            factored.sign_in.sign_in_with_code(half_open, f"{guess:06d}", HOME)
            for guess in range(40)
        ),
        return_exceptions=True,
    )
    tried = sum(isinstance(outcome, WrongCode) for outcome in outcomes)
    assert tried <= PAIR_LIMIT.attempts_max
    assert tried + sum(isinstance(outcome, TooManyAttempts) for outcome in outcomes) == 40


async def test_a_factor_is_on_only_after_its_first_code(ada: Member) -> None:
    """A secret that was shown but never confirmed asks for no code at sign-in."""
    shown = await ada.propose_factor()
    with pytest.raises(InvalidField):
        await ada.second_factors.confirm(ada.account_id, "000000", HOME)
    assert "sign_in_failed" not in {event.kind for event in await ada.events()}
    assert (await ada.sign_in.sign_in("ada", PASSWORD, HOME)).stage == "signed_in"
    assert await ada.propose_factor() == shown


async def test_a_code_of_a_secret_that_was_replaced_is_told_apart_from_a_wrong_one(
    ada: Member,
) -> None:
    """Another session has opened the page since, and got a secret of its own."""
    await ada.propose_factor()
    first = msgspec.structs.replace(HOME, session_hash=ada.session_hash)
    with pytest.raises(InvalidField, match="not right"):
        await ada.second_factors.confirm(ada.account_id, "000000", first)
    phone = await ada.source(await ada.sign_in.sign_in("ada", PASSWORD, HOME))
    await ada.second_factors.propose(ada.account_id, phone.session_hash)

    with pytest.raises(InvalidField, match="in another session of your account"):
        await ada.second_factors.confirm(ada.account_id, ada.code(), first)


async def test_concurrent_proposals_return_one_secret(ada: Member) -> None:
    """Whichever page's secret is scanned, its codes work."""
    shown = await asyncio.gather(*(ada.propose_factor() for _ in range(20)))
    assert len(set(shown)) == 1


async def test_a_factor_that_is_on_is_not_turned_on_again(factored: Member) -> None:
    """The recovery codes stay those that were shown."""
    with pytest.raises(InvalidField, match="already"):
        await factored.second_factors.confirm(factored.account_id, factored.code(), HOME)
    await factored.sign_in.sign_in_with_code(
        await sign_in_without_code(factored), factored.recovery_codes[0], HOME
    )


async def test_turning_off_takes_a_code(factored: Member) -> None:
    """With a wrong code it stays on; with a right one the password is enough again.

    The events tell that a recovery code was used.
    """
    with pytest.raises(InvalidField):
        await factored.second_factors.remove(factored.account_id, "000000", HOME)
    await sign_in_without_code(factored)
    await factored.second_factors.remove(factored.account_id, factored.recovery_codes[3], HOME)
    kinds = {event.kind for event in await factored.events()}
    assert {"second_factor_turned_off", "recovery_code_used"} <= kinds
    assert (await factored.sign_in.sign_in("ada", PASSWORD, HOME)).stage == "signed_in"


async def test_turning_off_an_app_that_is_off_changes_nothing(
    factored: Member, passkeys: PasskeyService, outbox: Outbox
) -> None:
    """A form sent twice, also at once, uses up one recovery code and is told once."""
    source = factored.first_source
    options = await passkeys.creation_options(Owner(factored.account_id, "ada", "Ada"), source)
    await passkeys.add(factored.account_id, "Phone", Authenticator().make(options), source)
    first, second, third = factored.recovery_codes[:3]

    await asyncio.gather(
        factored.second_factors.remove(factored.account_id, first, source),
        factored.second_factors.remove(factored.account_id, second, source),
    )
    await factored.second_factors.remove(factored.account_id, third, source)

    kinds = [event.kind for event in await factored.events()]
    assert kinds.count("second_factor_turned_off") == kinds.count("recovery_code_used") == 1
    subjects = [each.subject for each in await outbox.newest("ada@example.com")]
    assert subjects.count("A second factor was removed from your Ousel account") == 1


async def test_turning_off_the_only_factor_twice_is_no_failed_attempt(factored: Member) -> None:
    """The recovery codes are gone with the app, but nobody has mistyped anything."""
    for _ in range(CODE_LIMIT.attempts_max + 1):
        await factored.second_factors.remove(
            factored.account_id, factored.recovery_codes[0], factored.first_source
        )

    assert "sign_in_failed" not in {event.kind for event in await factored.events()}


async def test_turning_a_factor_on_again_makes_new_recovery_codes(factored: Member) -> None:
    """Neither the old secret nor the old recovery codes count for the new factor."""
    old_secret, old_codes = factored.factor_secret, factored.recovery_codes
    await factored.second_factors.remove(factored.account_id, factored.code(), HOME)
    await factored.turn_on_factor()
    assert factored.factor_secret != old_secret
    half_open = await sign_in_without_code(factored)
    with pytest.raises(WrongCode):
        await factored.sign_in.sign_in_with_code(half_open, old_codes[0], HOME)
