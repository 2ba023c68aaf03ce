"""Passkeys: they sign in alone or after the password, and wrong ones are refused and recorded."""

import asyncio

import pytest

from ousel.accounts.service import NewHolder
from ousel.kernel.errors import InvalidField
from ousel.mail.outbox import Outbox
from ousel.passkeys.rules import CHALLENGE_SECONDS, PASSKEYS_MAX, Owner
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.account_settings import AccountSettings, AccountSettingsService
from ousel.people.attempts import TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.passkey_sign_in import PasskeySignInService, SecondStep
from ousel.people.passkeys import PasskeyNotFound, PasskeyService
from ousel.people.rules import CHALLENGE_LIMIT, PASSKEY_LIMIT, RECOVERY_CODES
from ousel.people.sign_in import SignInService, WrongCode, WrongPassword
from tests.people.members import HOME, LAPTOP, OFFICE, Member
from tests.support.authenticator import USER_PRESENT, Authenticator
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD


class Keyring:
    """Ada's authenticator, and how she uses it."""

    def __init__(
        self, member: Member, passkeys: PasskeyService, entrance: PasskeySignInService
    ) -> None:
        self.member = member
        self.passkeys = passkeys
        self.entrance = entrance
        self.phone = Authenticator()
        self.owner = Owner(member.account_id, "ada", "Ada")

    async def add(
        self, authenticator: Authenticator | None = None, name: str = "Phone"
    ) -> list[str]:
        """Add a passkey; return the recovery codes that come with the first factor."""
        options = await self.passkeys.creation_options(self.owner, HOME)
        made = (authenticator or self.phone).make(options)
        return await self.passkeys.add(self.member.account_id, name, made, HOME)

    async def sign_in(
        self, authenticator: Authenticator | None = None, source: EventSource = HOME
    ) -> str:
        """Sign in with a passkey and nothing else; return the session's secret."""
        signed = (authenticator or self.phone).sign(await self.entrance.options(source))
        return (await self.entrance.sign_in(signed, source)).secret

    async def half_open(self) -> str:
        """Return the secret of a sign-in that waits for its second factor."""
        signed_in = await self.member.sign_in.sign_in("ada", PASSWORD, HOME)
        assert signed_in.stage == "awaits_code"
        return signed_in.secret

    async def finish(self, half_open: str, authenticator: Authenticator | None = None) -> str:
        """Finish a sign-in with a passkey; return the session's secret."""
        options = await self.entrance.second_step_options(half_open, HOME)
        signed = (authenticator or self.phone).sign(options)
        return (await self.entrance.finish(half_open, signed, HOME)).secret

    async def settings(self) -> AccountSettings:
        """Return what the settings page shows."""
        service = AccountSettingsService(self.member.database, self.member.clock)
        return await service.read(self.member.account_id)

    async def only_id(self) -> str:
        """Return the id of the only passkey."""
        [passkey] = await self.listed()
        return passkey

    async def listed(self) -> list[str]:
        """Return the ids of the passkeys."""
        return [each.id for each in (await self.settings()).passkeys]

    async def details_of(self, kind: str) -> list[str]:
        """Return the details of all events of this kind."""
        return [event.detail for event in await self.member.events() if event.kind == kind]


@pytest.fixture
def keyring(
    ada: Member, passkeys: PasskeyService, passkey_sign_in: PasskeySignInService
) -> Keyring:
    """Ada with an authenticator, and no passkey yet."""
    return Keyring(ada, passkeys, passkey_sign_in)


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
    mallory = await keyring.member.person((await sign_in.sign_up(holder, PASSWORD, HOME)).secret)
    stick = Authenticator()
    options = await keyring.passkeys.creation_options(
        Owner(mallory.account_id, "mallory", "Mallory"), HOME
    )
    await keyring.passkeys.add(mallory.account_id, "Stick", stick.make(options), HOME)

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
    member.factor_secret = await member.second_factors.propose(member.account_id)
    with pytest.raises(WrongCode):
        await member.sign_in.sign_in_with_code(await keyring.half_open(), member.code(), HOME)


async def test_a_recovery_code_does_not_turn_an_app_on(keyring: Keyring) -> None:
    """Only the first code of the app itself does."""
    codes = await keyring.add()
    member = keyring.member
    await member.second_factors.propose(member.account_id)
    with pytest.raises(InvalidField):
        await member.second_factors.confirm(member.account_id, codes[0], HOME)
    assert not await member.second_factors.is_on(member.account_id)


async def test_a_counter_that_goes_back_is_refused_and_recorded(keyring: Keyring) -> None:
    """Somebody has copied the passkey; the copy's signature is right and its counter is behind."""
    await keyring.add()
    await keyring.sign_in()
    await keyring.sign_in()
    keyring.phone.counter = 0

    with pytest.raises(PasskeyNotAccepted, match="copied"):
        await keyring.sign_in()

    assert await keyring.details_of("passkey_refused") == ["Phone"]
    half_open = await keyring.half_open()
    with pytest.raises(PasskeyNotAccepted, match="copied"):  # the counter is 2 for both
        await keyring.finish(half_open)


async def test_an_authenticator_need_not_count(keyring: Keyring) -> None:
    """Passkeys that are synchronized between devices always say 0."""
    keyring.phone.counts = False
    await keyring.add()
    await keyring.sign_in()
    await keyring.sign_in()


@pytest.mark.parametrize("forged", ["origin", "site", "verification", "key", "handle", "id"])
async def test_a_wrong_passkey_is_refused(keyring: Keyring, forged: str) -> None:
    """Another site's, one that did not recognize its owner, another key's, and unknown ones."""
    await keyring.add()
    phone = keyring.phone
    match forged:
        case "origin":
            phone.origin = "https://pay.example.evil.example"
        case "site":
            phone.site_id = "evil.example"
        case "verification":
            phone.flags = USER_PRESENT
        case "key":
            phone.forget_key()
        case "handle":
            phone.user_handle = b"somebody else"
        case _:
            phone.credential_id = b"another credential"

    with pytest.raises(PasskeyNotAccepted):
        await keyring.sign_in()

    is_known = forged not in {"handle", "id"}
    assert await keyring.details_of("sign_in_failed") == ["Wrong passkey"] * is_known


@pytest.mark.parametrize("forged", ["origin", "site", "verification"])
async def test_a_wrong_new_passkey_is_refused(keyring: Keyring, forged: str) -> None:
    """It is not added if it was made for another site, or without recognizing its owner."""
    match forged:
        case "origin":
            keyring.phone.origin = "http://pay.example"
        case "site":
            keyring.phone.site_id = "example"
        case _:
            keyring.phone.flags = USER_PRESENT
    with pytest.raises(PasskeyNotAccepted):
        await keyring.add()
    assert await keyring.listed() == []


async def test_a_challenge_works_once(keyring: Keyring) -> None:
    """An answer that was overheard signs nobody in, and neither does a second click."""
    await keyring.add()
    keyring.phone.counts = False
    signed = keyring.phone.sign(await keyring.entrance.options(HOME))
    results = await asyncio.gather(
        *(keyring.entrance.sign_in(signed, HOME) for _ in range(5)), return_exceptions=True
    )
    refused = [each for each in results if isinstance(each, PasskeyNotAccepted)]
    assert len(refused) == 4
    with pytest.raises(PasskeyNotAccepted, match="twice"):
        await keyring.entrance.sign_in(signed, HOME)


async def test_a_challenge_ends_after_five_minutes(keyring: Keyring, clock: ManualClock) -> None:
    """Then the person presses the button again."""
    await keyring.add()
    signed = keyring.phone.sign(await keyring.entrance.options(HOME))
    clock.advance(seconds=CHALLENGE_SECONDS)
    with pytest.raises(PasskeyNotAccepted, match="too long"):
        await keyring.entrance.sign_in(signed, HOME)


async def test_a_challenge_belongs_to_the_browser_that_asked_for_it(keyring: Keyring) -> None:
    """An answer from another browser is refused, and so is one for another account's challenge."""
    await keyring.add()
    signed = keyring.phone.sign(await keyring.entrance.options(LAPTOP))
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(signed, HOME)
    for_second_step = await keyring.entrance.second_step_options(await keyring.half_open(), HOME)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(keyring.phone.sign(for_second_step), HOME)


@pytest.mark.parametrize("sent", ["", "{}", "[]", '{"id": "", "response": {}}', "\udcff"])
async def test_a_form_without_a_passkey_is_refused(keyring: Keyring, sent: str) -> None:
    """The form was sent without the script, or by hand."""
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(sent, HOME)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.passkeys.add(keyring.member.account_id, "Phone", sent, HOME)


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
    with pytest.raises(InvalidField, match="already"):
        await keyring.add(Authenticator())


async def test_passkeys_are_renamed(keyring: Keyring) -> None:
    """The name must be valid, and the change is recorded."""
    await keyring.add()
    account_id, passkey_id = keyring.member.account_id, await keyring.only_id()
    with pytest.raises(InvalidField):
        await keyring.passkeys.rename(account_id, passkey_id, "\n", HOME)
    await keyring.passkeys.rename(account_id, passkey_id, "Old phone", HOME)
    assert (await keyring.passkeys.find(account_id, passkey_id)).name == "Old phone"
    assert await keyring.details_of("passkey_renamed") == ["Phone → Old phone"]


async def test_wrong_answers_are_limited(keyring: Keyring) -> None:
    """Ten a day for one passkey from all addresses; a browser that the account knows works."""
    await keyring.add()
    await keyring.sign_in(source=LAPTOP)
    phone = keyring.phone
    phone.origin = "https://evil.example"
    for number in range(PASSKEY_LIMIT.failures):
        with pytest.raises(PasskeyNotAccepted):
            await keyring.sign_in(source=EventSource(f"198.51.100.{number}", ""))
    phone.origin = "https://pay.example"
    for stranger in (HOME, OFFICE):
        with pytest.raises(TooManyAttempts):
            await keyring.sign_in(source=stranger)
    await keyring.sign_in(source=LAPTOP)


async def test_challenges_are_limited_by_address(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a row in the database, so nobody gets any number of them."""
    monkeypatch.setattr("ousel.people.attempts.CHALLENGE_LIMIT", type(CHALLENGE_LIMIT)(3, 3600))
    for _ in range(3):
        await keyring.entrance.options(HOME)
    with pytest.raises(TooManyAttempts):
        await keyring.entrance.options(HOME)
    await keyring.entrance.options(OFFICE)


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
