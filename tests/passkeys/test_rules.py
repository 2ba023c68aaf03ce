"""Passkeys: the site that they are made for, their names, and what browsers send."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.errors import InvalidField
from ousel.passkeys.ceremony import check_new, check_signature, read_answer
from ousel.passkeys.rules import (
    NAME_CHARACTERS_MAX,
    Owner,
    Passkey,
    RelyingParty,
    base64url,
    creation_options,
    parse_name,
    relying_party_of,
    request_options,
    user_handle,
)
from tests.support.authenticator import Authenticator

SITE = RelyingParty("pay.example", "https://pay.example")
ADA = Owner("acct_1", "ada", "Ada")


@pytest.mark.parametrize(
    ("portal_url", "site_id", "origin"),
    [
        ("https://pay.example", "pay.example", "https://pay.example"),
        ("https://Pay.Example:443", "pay.example", "https://pay.example"),
        ("https://pay.example:8443", "pay.example", "https://pay.example:8443"),
        ("http://localhost:8000", "localhost", "http://localhost:8000"),
        ("http://127.0.0.1:8000", "localhost", "http://localhost:8000"),
        ("http://[::1]:8000", "localhost", "http://localhost:8000"),
    ],
)
def test_the_site_follows_from_the_portals_address(
    portal_url: str, site_id: str, origin: str
) -> None:
    """The id is the host, the origin is as browsers write it; loopback means localhost."""
    assert relying_party_of(portal_url) == RelyingParty(site_id, origin)


@pytest.mark.parametrize("portal_url", ["http://192.0.2.1", "https://[2001:db8::1]:8443"])
def test_a_site_without_a_name_has_no_passkeys(portal_url: str) -> None:
    """Browsers make none for an IP address."""
    assert relying_party_of(portal_url) is None


def test_a_name_is_short_and_printable() -> None:
    """Space around it is removed, and names of all scripts are accepted."""
    assert parse_name("  Ada's phone ") == "Ada's phone"
    assert parse_name("می\u200cروم") == "می\u200cروم"
    assert parse_name("Ada\xa0phone") == "Ada phone"
    for wrong in ("", "  ", "a\nb", "\u200cA", "\u202egnp", "a" * (NAME_CHARACTERS_MAX + 1)):
        with pytest.raises(InvalidField):
            parse_name(wrong)


def test_the_user_handle_tells_nothing_about_the_account() -> None:
    """WebAuthn allows 64 bytes; they differ for each account and contain no part of its id."""
    handle = user_handle("acct_1")
    assert len(handle) <= 64
    assert handle != user_handle("acct_2")
    assert b"acct" not in handle


def test_the_person_is_always_verified_and_the_passkey_found_without_a_name() -> None:
    """So a passkey is two factors at once, and signs in with nothing else."""
    made = creation_options(SITE, ADA, "challenge", ["known"])
    assert made["authenticatorSelection"]["residentKey"] == "required"
    assert made["authenticatorSelection"]["userVerification"] == "required"
    assert made["excludeCredentials"] == [{"type": "public-key", "id": "known"}]
    asked = request_options(SITE, "challenge", [])
    assert (asked["rpId"], asked["userVerification"]) == ("pay.example", "required")


@given(text=st.text() | st.from_regex(r'\{"id": ".*", "response": \{.*\}\}', fullmatch=True))
def test_an_answer_of_any_text_is_read_or_refused(text: str) -> None:
    """A malformed answer is no error of the server."""
    read_answer(text)


@pytest.mark.parametrize(("arrays", "is_read"), [(99, True), (100, False), (5_000, False)])
def test_an_answer_may_be_nested_a_hundred_levels_deep(*, arrays: int, is_read: bool) -> None:
    """Its own members or those of the client data may be nested, on every Python alike."""
    deep = "[" * arrays + "]" * arrays
    for inner, outer in (("1", deep), (deep, "1")):
        client_data = base64url(f'{{"challenge": "c29tZQ", "x": {inner}}}'.encode())
        answer = f'{{"id": "a", "response": {{"clientDataJSON": "{client_data}"}}, "x": {outer}}}'
        assert (read_answer(answer) is not None) == is_read


@given(content=st.binary(max_size=300))
def test_an_answer_with_any_bytes_is_checked_or_refused(content: bytes) -> None:
    """Whatever a browser puts into the fields, the check says only that it is not right."""
    client_data = json.dumps(
        {"type": "webauthn.create", "challenge": "c29tZQ", "origin": SITE.origin}
    )
    fields = dict.fromkeys(
        ("attestationObject", "authenticatorData", "signature"), base64url(content)
    )
    response = fields | {"clientDataJSON": base64url(client_data.encode())}
    answer = read_answer(
        json.dumps({"id": "c29tZQ", "rawId": "c29tZQ", "type": "public-key", "response": response})
    )
    assert answer is not None
    assert check_new(answer, SITE) is None
    passkey = Passkey("acct_1", "pk_1", "c29tZQ", base64url(content), "Phone", 0, 0, None)
    assert check_signature(answer, passkey, SITE) is None


def test_a_right_answer_is_accepted() -> None:
    """The authenticator of these tests is understood, so the refusals above mean something."""
    authenticator = Authenticator()
    answer = read_answer(authenticator.make(creation_options(SITE, ADA, "c29tZQ", [])))
    assert answer is not None
    made = check_new(answer, SITE)
    assert made is not None
    passkey = Passkey("acct_1", "pk_1", made.credential_id, made.public_key, "Phone", 0, 0, None)

    signed = read_answer(authenticator.sign(request_options(SITE, "bW9yZQ", [])))

    assert signed is not None
    assert signed.names("acct_1")
    assert check_signature(signed, passkey, SITE) == 1
