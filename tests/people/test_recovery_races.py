"""What was begun before a new password was set: none of it may let anybody in afterwards."""

import asyncio
from typing import Any

import msgspec
import pytest

from ousel.emails.service import PendingConfirmations
from ousel.kernel.errors import InvalidField
from ousel.kernel.ids import secret_hash
from ousel.passkeys.ceremony import BrowserAnswer
from ousel.passkeys.rules import Passkey
from ousel.passkeys.service import PasskeyChallenges, PasskeyNotAccepted
from ousel.people import factor_store
from ousel.people.account_settings import AccountSettingsService
from ousel.people.email_confirmation import EmailLinkEnded
from tests.people.keyrings import Keyring
from tests.people.mailboxes import EMAIL, People
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.people.recoveries import NEW_PASSWORD, Recovery
from tests.support.authenticator import Authenticator
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD
from tests.support.waiting import until_done_or_blocked

NEW_EMAIL = "mallory@example.com"

by_operator = pytest.mark.parametrize("by_operator", [False, True])


postgres_only = pytest.mark.parametrize("engine", ["postgresql"])  # SQLite has one writer at a time


class Pause:
    """A point in the code at which a task waits until it may go on."""

    def __init__(self) -> None:
        self.reached, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        """Say that the point is reached, and wait."""
        self.reached.set()
        await self.may_go_on.wait()


async def link_of(recovery: Recovery, *, by_operator: bool) -> str:
    """Return a link to a new password."""
    return await (recovery.operator_link() if by_operator else recovery.link())


@postgres_only
async def test_a_passkey_added_while_the_app_is_turned_off_gets_recovery_codes(
    keyring: Keyring, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the codes of the app stay, or the passkey is the first factor and gets its own."""
    member, pause = keyring.member, Pause()
    await member.turn_on_factor()
    record = member.second_factors._notices.record  # noqa: SLF001

    async def slowly(*arguments: Any) -> None:
        await pause.wait()
        await record(*arguments)

    member.clock.advance(seconds=30)  # each code works once
    with monkeypatch.context() as patched:
        patched.setattr(member.second_factors._notices, "record", slowly)  # noqa: SLF001
        removing = asyncio.create_task(
            member.second_factors.remove(member.account_id, member.code(), HOME)
        )
        await pause.reached.wait()
    adding = asyncio.create_task(keyring.add())
    await until_done_or_blocked(adding, database_url)
    pause.may_go_on.set()
    await asyncio.gather(removing, adding)

    assert (await keyring.settings()).recovery_codes_left == 10


@postgres_only
async def test_a_code_never_turns_on_the_secret_that_another_session_was_shown(
    ada: Member, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's session opens the page while Ada's code is on its way."""
    stranger = (await ada.sign_in.sign_in("ada", PASSWORD, OFFICE)).secret
    await ada.propose_factor()
    propose, pause = factor_store.propose_authenticator_app, Pause()

    async def slowly(*arguments: Any) -> str:
        stored = await propose(*arguments)
        await pause.wait()
        return stored

    monkeypatch.setattr(factor_store, "propose_authenticator_app", slowly)
    opening = asyncio.create_task(ada.second_factors.propose(ada.account_id, secret_hash(stranger)))
    await pause.reached.wait()
    confirming = asyncio.create_task(
        ada.second_factors.confirm(ada.account_id, ada.code(), ada.first_source)
    )
    await until_done_or_blocked(confirming, database_url)
    pause.may_go_on.set()
    await opening
    with pytest.raises(InvalidField, match="in another session of your account"):
        await confirming
    assert not await ada.second_factors.has_authenticator_app(ada.account_id)


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
    check = PasskeyChallenges.check_signature

    async def check_after_recovery(
        challenges: PasskeyChallenges, answer: BrowserAnswer, passkey: Passkey
    ) -> int | None:
        await recovery.use(link)
        return await check(challenges, answer, passkey)

    monkeypatch.setattr(PasskeyChallenges, "check_signature", check_after_recovery)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in()
    assert "signed_in" not in [event.kind for event in await keyring.member.events()]


@by_operator
async def test_a_passkey_begun_before_a_recovery_is_not_added(
    keyring: Keyring, recovery: Recovery, *, by_operator: bool
) -> None:
    """Whoever used the account before cannot leave a way in behind."""
    source = keyring.member.first_source
    options = await keyring.passkeys.creation_options(keyring.owner, source)
    await recovery.use(await link_of(recovery, by_operator=by_operator))

    made = Authenticator().make(options)
    assert await keyring.passkeys.add(keyring.member.account_id, "Mine", made, source) is None
    assert await keyring.listed() == []


@pytest.mark.parametrize("ended_by", ["sign_out", "a password from a slow clock"])
async def test_a_passkey_is_not_added_if_its_session_ends_during_the_check(
    keyring: Keyring, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """It does not matter what ends the session, nor what the clock of that process says."""
    member = keyring.member
    thief = await member.source(await member.sign_in.sign_in("ada", PASSWORD, OFFICE), OFFICE)
    made = Authenticator().make(await keyring.passkeys.creation_options(keyring.owner, thief))
    check = PasskeyChallenges.check_new

    async def check_later(challenges: PasskeyChallenges, answer: BrowserAnswer) -> Any:
        if ended_by == "sign_out":
            settings = AccountSettingsService(member.database, clock)
            await settings.end_session(member.account_id, thief.session_hash, HOME)
        else:
            clock.advance(seconds=-1)
            await member.sign_in.change_password(
                member.account_id, PASSWORD, NEW_PASSWORD, member.first_source
            )
        return await check(challenges, answer)

    monkeypatch.setattr(PasskeyChallenges, "check_new", check_later)
    assert await keyring.passkeys.add(member.account_id, "Mine", made, thief) is None
    assert await keyring.listed() == []


async def test_a_session_that_has_ended_turns_no_authenticator_app_on(ada: Member) -> None:
    """Its code is right, but the secret that it has seen protects nothing afterwards."""
    await ada.propose_factor()
    source = ada.first_source
    settings = AccountSettingsService(ada.database, ada.clock)
    await settings.end_session(ada.account_id, source.session_hash, HOME)

    with pytest.raises(InvalidField, match="session has ended"):
        await ada.second_factors.confirm(ada.account_id, ada.code(), source)

    assert not await ada.second_factors.has_authenticator_app(ada.account_id)


async def test_a_passkey_sign_in_begun_before_a_password_change_fails(
    keyring: Keyring, clock: ManualClock
) -> None:
    """As a new password ends all other sessions, it also ends those that are being opened."""
    await keyring.add()
    person = await keyring.member.person(await keyring.sign_in())
    office = msgspec.structs.replace(OFFICE, session_hash=person.session_hash)
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


@postgres_only
async def test_a_message_sent_again_during_a_recovery_does_not_keep_an_email_change(
    people: People, recovery: Recovery, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new password ends the email change, though its message is being sent once more."""
    ada = await people.sign_up("ada")
    await people.confirm(ada)
    await people.emails.change(ada, PASSWORD, NEW_EMAIL, LAPTOP)
    recovery_link = await recovery.link()
    pause, start = Pause(), PendingConfirmations.start

    async def start_later(*arguments: Any) -> None:
        await pause.wait()
        await start(*arguments)

    monkeypatch.setattr(PendingConfirmations, "start", start_later)
    sending = asyncio.create_task(people.send(ada))
    await pause.reached.wait()
    recovering = asyncio.create_task(recovery.use(recovery_link))
    await until_done_or_blocked(recovering, database_url)
    pause.may_go_on.set()
    await asyncio.gather(sending, recovering)

    with pytest.raises(EmailLinkEnded):
        await people.emails.confirm_with_link(await people.link(NEW_EMAIL), LAPTOP)


async def test_no_second_factor_is_proposed_after_a_recovery(
    ada: Member, recovery: Recovery
) -> None:
    """A request of a session that has ended gets no secret, though it was begun before."""
    await recovery.use(await recovery.link())

    assert await ada.second_factors.propose(ada.account_id, ada.session_hash) is None


@postgres_only
async def test_a_second_factor_that_is_being_proposed_ends_with_a_recovery(
    ada: Member, recovery: Recovery, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever saw its secret before the new password does not know the next one."""
    recovery_link = await recovery.link()
    pause, propose_factor = Pause(), factor_store.propose_authenticator_app

    async def propose_later(*arguments: Any) -> str:
        await pause.wait()
        return await propose_factor(*arguments)

    monkeypatch.setattr(factor_store, "propose_authenticator_app", propose_later)
    proposing = asyncio.create_task(ada.propose_factor())
    await pause.reached.wait()
    recovering = asyncio.create_task(recovery.use(recovery_link))
    await until_done_or_blocked(recovering, database_url)
    pause.may_go_on.set()
    seen, _ = await asyncio.gather(proposing, recovering)

    signed_in = await ada.sign_in.sign_in("ada", NEW_PASSWORD, HOME)
    session = (await ada.person(signed_in.secret)).session_hash
    assert await ada.second_factors.propose(ada.account_id, session) not in {None, seen}
