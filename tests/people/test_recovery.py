"""A forgotten password: a link by mail or from the operator sets a new one."""

import pytest

from ousel.database.port import Database
from ousel.kernel.errors import InvalidField
from ousel.mail.outbox import Outbox
from ousel.passkeys.rules import Owner
from ousel.people import store
from ousel.people.passkeys import PasskeyService
from ousel.people.recovery import ResetLinkEnded
from ousel.people.rules import CODE_LIMIT
from ousel.people.sign_in import WrongCode, WrongPassword
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.people.recoveries import NEW_PASSWORD, Recovery
from tests.support.authenticator import Authenticator
from tests.support.raw_sql import RawSql
from tests.support.visitor import PASSWORD


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


async def test_the_second_factor_is_kept(ada: Member, recovery: Recovery) -> None:
    """After the reset, the person signs in with the password and a code, as always."""
    await ada.turn_on_factor()
    await recovery.use(await recovery.link())
    ada.pass_a_code()
    owed = await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)
    assert owed.stage == "awaits_code"
    signed_in = await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), HOME)
    assert signed_in.stage == "signed_in"


async def test_a_link_by_mail_leaves_the_known_browsers_their_codes(
    ada: Member, recovery: Recovery
) -> None:
    """Strangers who have used up their codes do not keep the holder out after a new password."""
    await ada.turn_on_factor()
    owed = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), LAPTOP)
    owed = await ada.sign_in.sign_in("ada", PASSWORD, HOME)
    for _ in range(CODE_LIMIT.attempts_max):
        with pytest.raises(WrongCode):
            await ada.sign_in.sign_in_with_code(owed.secret, "000000", HOME)

    await recovery.use(await recovery.link())

    ada.pass_a_code()
    owed = await ada.sign_in.sign_in("ada", NEW_PASSWORD, LAPTOP)
    signed_in = await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), LAPTOP)
    assert signed_in.stage == "signed_in"


async def test_the_next_sign_in_of_each_browser_is_told(
    ada: Member, recovery: Recovery, outbox: Outbox
) -> None:
    """An intruder's browser may be known too, and must not come back unnoticed."""
    await ada.turn_on_factor()
    for password in (PASSWORD, NEW_PASSWORD, NEW_PASSWORD):
        ada.pass_a_code()
        owed = await ada.sign_in.sign_in("ada", password, LAPTOP)
        await ada.sign_in.sign_in_with_code(owed.secret, ada.code(), LAPTOP)
        if password == PASSWORD:
            await recovery.use(await recovery.link())

    told = [each.subject for each in await outbox.newest(EMAIL)]
    assert told.count("New sign-in to your Ousel account") == 2


@pytest.mark.one_engine
@pytest.mark.parametrize("way", ["a link by mail", "the operator's link", "a changed password"])
async def test_other_new_passwords_forget_the_known_browsers(
    ada: Member, recovery: Recovery, database: Database, way: str
) -> None:
    """So does a link by mail if the account has no second factor."""
    opened = await ada.sign_in.sign_in("ada", PASSWORD, LAPTOP)
    if way == "a link by mail":
        await recovery.use(await recovery.link())
    else:
        await ada.turn_on_factor()
        if way == "the operator's link":
            await recovery.use(await recovery.operator_link())
        else:
            office = await ada.source(opened, OFFICE)
            await ada.sign_in.change_password(ada.account_id, PASSWORD, NEW_PASSWORD, office)

    is_known = await database.read(
        lambda transaction: store.is_known_browser(transaction, ada.account_id, LAPTOP.browser_hash)
    )
    assert not is_known


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
    assert "The operator has issued a link that resets your Ousel password" in subjects
    assert "The password of your Ousel account was changed" in subjects
    assert "A second factor was removed from your Ousel account" in subjects
    assert not any(link in each.text for each in mail)


async def test_passkeys_are_kept_by_mail_and_removed_by_the_operator(
    ada: Member, recovery: Recovery, passkeys: PasskeyService
) -> None:
    """A passkey is a second factor: only the operator's link lets the password alone sign in."""
    source = ada.first_source
    options = await passkeys.creation_options(Owner(ada.account_id, "ada", "Ada"), source)
    await passkeys.add(ada.account_id, "Phone", Authenticator().make(options), source)
    await recovery.use(await recovery.link())
    assert (await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)).stage == "awaits_code"
    await recovery.use(await recovery.operator_link(), PASSWORD)
    assert (await ada.sign_in.sign_in("ada", PASSWORD, HOME)).stage == "signed_in"
    texts = [each.text for each in await recovery.outbox.newest(EMAIL)]
    assert any("every authenticator app, passkey and recovery code" in text for text in texts)


async def test_the_operators_link_works_without_a_factor_and_without_a_confirmed_email(
    people: People, recovery: Recovery
) -> None:
    """There may be nothing to remove, and nobody to write to."""
    await people.sign_up("ada")
    await recovery.use(await recovery.operator_link())
    await people.sign_in.sign_in("ada", NEW_PASSWORD, HOME)


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
