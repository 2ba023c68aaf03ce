"""The passkeys of an account: people add, rename and remove them."""

import pytest

from ousel.kernel.errors import InvalidField
from ousel.mail.outbox import Outbox
from ousel.passkeys.rules import PASSKEYS_MAX
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.passkeys import PasskeyNotFound
from tests.people.keyrings import Keyring
from tests.people.members import HOME
from tests.support.authenticator import Authenticator
from tests.support.visitor import PASSWORD


async def test_removing_the_last_factor_removes_the_recovery_codes(keyring: Keyring) -> None:
    """Then the password alone signs in, and a new first factor brings new codes."""
    codes = await keyring.add()
    passkey_id = await keyring.only_id()
    await keyring.passkeys.remove(keyring.member.account_id, passkey_id, HOME)

    assert await keyring.details_of("passkey_removed") == ["Phone"]
    assert (await keyring.settings()).recovery_codes_left == 0
    with pytest.raises(PasskeyNotAccepted, match="not known"):
        await keyring.sign_in()
    assert (await keyring.member.sign_in.sign_in("ada", PASSWORD, HOME)).stage == "signed_in"
    with pytest.raises(PasskeyNotFound):
        await keyring.passkeys.remove(keyring.member.account_id, passkey_id, HOME)
    assert not set(await keyring.add()) & set(codes)


async def test_recovery_codes_stay_while_there_is_a_factor(keyring: Keyring) -> None:
    """Turning the app off leaves the passkey, and removing the passkey leaves the app."""
    await keyring.member.turn_on_factor()
    codes = keyring.member.recovery_codes
    await keyring.add()
    await keyring.member.second_factors.remove(
        keyring.member.account_id, keyring.member.code(), HOME
    )
    await keyring.member.sign_in.sign_in_with_code(await keyring.half_open(), codes[0], HOME)

    keyring.member.pass_a_code()
    await keyring.member.turn_on_factor()
    await keyring.passkeys.remove(keyring.member.account_id, await keyring.only_id(), HOME)
    await keyring.member.sign_in.sign_in_with_code(
        await keyring.half_open(), keyring.member.recovery_codes[0], HOME
    )


async def test_a_passkey_is_added_once(keyring: Keyring) -> None:
    """Not again to the same account, nor to another one."""
    await keyring.add()
    with pytest.raises(PasskeyNotAccepted, match="before"):
        await keyring.add()
    assert len(await keyring.listed()) == 1


async def test_an_account_has_a_limited_number_of_passkeys(keyring: Keyring) -> None:
    """Each has its own name; one too many is refused before the browser is asked."""
    for number in range(PASSKEYS_MAX):
        await keyring.add(Authenticator(), f"Key {number}")
    with pytest.raises(InvalidField, match=f"There are already {PASSKEYS_MAX} passkeys"):
        await keyring.passkeys.creation_options(keyring.owner, HOME)

    names = [each.name for each in (await keyring.settings()).passkeys]
    assert sorted(names) == sorted(f"Key {number}" for number in range(PASSKEYS_MAX))


async def test_passkeys_are_renamed(keyring: Keyring) -> None:
    """The name must be valid, and the change is recorded."""
    await keyring.add()
    account_id, passkey_id = keyring.member.account_id, await keyring.only_id()
    with pytest.raises(InvalidField):
        await keyring.passkeys.rename(account_id, passkey_id, "\n", HOME)
    for _ in range(2):  # the second time, nothing changes
        await keyring.passkeys.rename(account_id, passkey_id, "Old phone", HOME)
    assert (await keyring.passkeys.find(account_id, passkey_id)).name == "Old phone"
    # The names are isolated, since two Hebrew or Arabic ones would turn the arrow around.
    assert await keyring.details_of("passkey_renamed") == [
        "\u2068Phone\u2069 → \u2068Old phone\u2069"
    ]


async def test_changes_of_passkeys_are_told(keyring: Keyring, outbox: Outbox) -> None:
    """One that was added, used on a new device, refused or removed; not what it is called."""
    await keyring.add(name="A name that a thief has chosen")
    keyring.phone.counter = 5
    await keyring.sign_in()
    keyring.phone.counter = 1
    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in()
    await keyring.passkeys.remove(keyring.member.account_id, await keyring.only_id(), HOME)

    mail = await outbox.newest("ada@example.com")
    assert {each.subject for each in mail} >= {
        "A passkey was added to your Ousel account",
        "New sign-in to your Ousel account",
        "A passkey of your Ousel account was refused",
        "A passkey of your Ousel account was removed",
    }
    assert not any("thief" in each.text + each.html for each in mail)
