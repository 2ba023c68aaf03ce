"""What was begun before a new password was set: none of it may let anybody in afterwards."""

import msgspec
import pytest

from ousel.passkeys.ceremony import BrowserAnswer
from ousel.passkeys.rules import Passkey
from ousel.passkeys.service import PasskeyNotAccepted, Passkeys
from ousel.people.email_confirmation import EmailLinkEnded
from tests.people.keyrings import Keyring
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE
from tests.people.recoveries import NEW_PASSWORD, Recovery
from tests.support.authenticator import Authenticator
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD

NEW_EMAIL = "mallory@example.com"

by_operator = pytest.mark.parametrize("by_operator", [False, True])


async def link_of(recovery: Recovery, *, by_operator: bool) -> str:
    """Return a link to a new password."""
    return await (recovery.operator_link() if by_operator else recovery.link())


@by_operator
async def test_a_passkey_sign_in_begun_before_a_recovery_fails(
    keyring: Keyring, recovery: Recovery, *, by_operator: bool
) -> None:
    """The passkey has signed, but its answer arrives too late. With a link by mail it is kept."""
    await keyring.add()
    signed = keyring.phone.sign(await keyring.entrance.options(HOME))
    await recovery.use(await link_of(recovery, by_operator=by_operator))

    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(signed, HOME)

    if not by_operator:
        recovery.clock.advance(seconds=1)
        assert await keyring.member.find(await keyring.sign_in()) is not None


@by_operator
async def test_a_passkey_sign_in_fails_if_a_recovery_overtakes_it(
    keyring: Keyring, recovery: Recovery, monkeypatch: pytest.MonkeyPatch, *, by_operator: bool
) -> None:
    """The new password is set while the signature is being checked."""
    await keyring.add()
    link = await link_of(recovery, by_operator=by_operator)
    check = Passkeys.check_signature

    async def check_after_recovery(
        keys: Passkeys, answer: BrowserAnswer, passkey: Passkey
    ) -> int | None:
        await recovery.use(link)
        return await check(keys, answer, passkey)

    monkeypatch.setattr(Passkeys, "check_signature", check_after_recovery)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in()
    assert "signed_in" not in [event.kind for event in await keyring.member.events()]


@by_operator
async def test_a_passkey_begun_before_a_recovery_is_not_added(
    keyring: Keyring, recovery: Recovery, *, by_operator: bool
) -> None:
    """Whoever used the account before cannot leave a way in behind."""
    options = await keyring.passkeys.creation_options(keyring.owner, LAPTOP)
    await recovery.use(await link_of(recovery, by_operator=by_operator))

    with pytest.raises(PasskeyNotAccepted):
        await keyring.passkeys.add(
            keyring.member.account_id, "Mine", Authenticator().make(options), LAPTOP
        )

    assert await keyring.listed() == []


async def test_a_passkey_sign_in_begun_before_a_password_change_fails(
    keyring: Keyring, clock: ManualClock
) -> None:
    """As a new password ends all other sessions, it also ends those that are being opened."""
    await keyring.add()
    person = await keyring.member.person(await keyring.sign_in())
    office = msgspec.structs.replace(OFFICE, session=person.session_hash)
    signed = keyring.phone.sign(await keyring.entrance.options(HOME))
    clock.advance(seconds=1)
    await keyring.member.sign_in.change_password(person.account_id, PASSWORD, NEW_PASSWORD, office)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(signed, HOME)


@by_operator
async def test_an_email_change_begun_before_a_recovery_ends(
    people: People, recovery: Recovery, *, by_operator: bool
) -> None:
    """Somebody who knew the old password cannot take the account over by their own mailbox."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    await people.emails.change(ada, PASSWORD, NEW_EMAIL, LAPTOP)
    link = await people.link(NEW_EMAIL)
    await recovery.use(await link_of(recovery, by_operator=by_operator))

    with pytest.raises(EmailLinkEnded):
        await people.emails.confirm_with_link(link, LAPTOP)

    assert (await people.emails.state(ada)).email.address == EMAIL
