"""Signing in with a passkey: alone, or as the second factor after the password."""

import pytest

from ousel.accounts.service import NewHolder
from ousel.kernel.errors import InvalidField
from ousel.passkeys.rules import Owner
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.passkey_sign_in import SecondStep
from ousel.people.rules import RECOVERY_CODES
from ousel.people.sign_in import SignInService, WrongCode, WrongPassword
from tests.people.keyrings import Keyring
from tests.people.members import HOME
from tests.support.authenticator import Authenticator
from tests.support.visitor import PASSWORD


async def test_a_passkey_signs_in_with_nothing_else(keyring: Keyring) -> None:
    """It counts as both factors, so no code is asked for; its use is recorded."""
    await keyring.add()
    person = await keyring.member.person(await keyring.sign_in())
    assert person.account_id == keyring.member.account_id
    assert await keyring.details_of("signed_in") == ["With the passkey Phone"]
    passkey = await keyring.passkeys.find(person.account_id, await keyring.only_id())
    assert passkey.last_used_at is not None


async def test_an_app_makes_no_difference_to_a_passkey(keyring: Keyring) -> None:
    """With two-factor sign-in on, a passkey still signs in with nothing else."""
    await keyring.member.turn_on_factor()
    assert await keyring.add() == []
    assert await keyring.member.find(await keyring.sign_in()) is not None


async def test_a_passkey_is_a_second_factor(keyring: Keyring) -> None:
    """After the password, either the passkey or a recovery code is needed."""
    codes = await keyring.add()
    assert len(codes) == RECOVERY_CODES
    half_open = await keyring.half_open()
    assert await keyring.member.find(half_open) is None
    assert await keyring.entrance.second_step(half_open) == SecondStep(
        by_app=False, by_passkey=True
    )
    secret = await keyring.finish(half_open)
    assert await keyring.member.find(secret) is not None
    with pytest.raises(WrongPassword):
        await keyring.finish(half_open)

    with pytest.raises(WrongCode):
        await keyring.member.sign_in.sign_in_with_code(await keyring.half_open(), "000000", HOME)
    await keyring.member.sign_in.sign_in_with_code(await keyring.half_open(), codes[0], HOME)


async def test_a_passkey_stands_beside_codes(keyring: Keyring) -> None:
    """With an authenticator app as well, either finishes the sign-in."""
    await keyring.member.turn_on_factor()
    await keyring.add()
    half_open = await keyring.half_open()
    assert await keyring.entrance.second_step(half_open) == SecondStep(by_app=True, by_passkey=True)
    await keyring.finish(half_open)
    await keyring.member.sign_in.sign_in_with_code(
        await keyring.half_open(), keyring.member.code(), HOME
    )


async def test_another_accounts_passkey_is_no_second_factor(
    keyring: Keyring, sign_in: SignInService
) -> None:
    """Mallory, who knows Ada's password, cannot finish with a passkey of his own."""
    await keyring.add()
    holder = NewHolder(username="mallory", email="mallory@example.com", display_name="Mallory")
    session = await sign_in.sign_up(holder, PASSWORD, HOME)
    mallory, source = (
        await keyring.member.person(session.secret),
        await keyring.member.source(session),
    )
    stick = Authenticator()
    options = await keyring.passkeys.creation_options(
        Owner(mallory.account_id, "mallory", "Mallory"), source
    )
    await keyring.passkeys.add(mallory.account_id, "Stick", stick.make(options), source)

    with pytest.raises(PasskeyNotAccepted):
        await keyring.finish(await keyring.half_open(), stick)
    stick.user_handle = keyring.phone.user_handle
    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in(stick)


async def test_a_passkey_names_its_account_only_when_it_is_used_alone(keyring: Keyring) -> None:
    """Some security keys do not say whom a passkey is for; after the password, this is known."""
    await keyring.add()
    keyring.phone.names_user = False
    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in()
    await keyring.finish(await keyring.half_open())


async def test_an_unconfirmed_app_is_no_second_factor(keyring: Keyring) -> None:
    """A secret that a page has shown does not replace a passkey before a code has confirmed it."""
    await keyring.add()
    member = keyring.member
    await member.propose_factor()
    with pytest.raises(WrongCode):
        await member.sign_in.sign_in_with_code(await keyring.half_open(), member.code(), HOME)


async def test_a_recovery_code_does_not_turn_an_app_on(keyring: Keyring) -> None:
    """Only the first code of the app itself does."""
    codes = await keyring.add()
    member = keyring.member
    await member.propose_factor()
    with pytest.raises(InvalidField):
        await member.second_factors.confirm(member.account_id, codes[0], HOME)
    assert not await member.second_factors.has_authenticator_app(member.account_id)
