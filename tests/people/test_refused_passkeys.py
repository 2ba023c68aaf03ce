"""Wrong passkeys, copies and challenges of others are refused, recorded and limited."""

import asyncio
import json

import pytest

from ousel.passkeys.rules import CHALLENGE_SECONDS
from ousel.passkeys.service import PasskeyNotAccepted
from ousel.people.attempts import TooManyAttempts
from ousel.people.audit import EventSource
from ousel.people.rules import CHALLENGE_LIMIT, PASSKEY_LIMIT
from tests.people.keyrings import Keyring
from tests.people.members import HOME, LAPTOP, OFFICE
from tests.support.authenticator import USER_PRESENT
from tests.support.clock import ManualClock


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


@pytest.mark.one_engine
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


@pytest.mark.one_engine
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
    """An answer that was intercepted signs nobody in, and neither does a second click."""
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


@pytest.mark.one_engine
@pytest.mark.parametrize("sent", ["", "{}", "[]", '{"id": "", "response": {}}', "\udcff"])
async def test_a_form_without_a_passkey_is_refused(keyring: Keyring, sent: str) -> None:
    """The form was sent without the script, or by hand."""
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(sent, HOME)
    with pytest.raises(PasskeyNotAccepted):
        await keyring.passkeys.add(keyring.member.account_id, "Phone", sent, HOME)


@pytest.mark.parametrize("name", ["\0", "a b", "ü", "", "a" * 1_365])
async def test_a_passkey_with_an_impossible_id_is_refused(keyring: Keyring, name: str) -> None:
    """Whatever it is, it is not looked up: PostgreSQL cannot even store some of it."""
    await keyring.add()
    signed = json.loads(keyring.phone.sign(await keyring.entrance.options(HOME)))
    with pytest.raises(PasskeyNotAccepted):
        await keyring.entrance.sign_in(json.dumps(signed | {"id": name}), HOME)


async def test_wrong_answers_are_limited(keyring: Keyring) -> None:
    """Ten a day for one passkey from all addresses; a browser that the account knows works."""
    await keyring.add()
    await keyring.sign_in(source=LAPTOP)
    phone = keyring.phone
    phone.origin = "https://evil.example"
    for number in range(PASSKEY_LIMIT.attempts_max):
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
