"""The rules of OAuth decide on scopes, proof keys and codes without a database."""

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.oauth.refusals import InvalidRequest, InvalidScope
from ousel.oauth.rules import (
    Code,
    Exchange,
    Token,
    code_expiry,
    exchange_refusal,
    parse_challenge,
    parse_scope,
    token_expiry,
    verifier_matches,
)

NOW = 1_790_000_000_000_000
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # both from RFC 7636, appendix B
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
URI = "https://shop.example/back"

verifiers = st.text("AZaz09._~-", min_size=43, max_size=128)


def code(challenge: str | None = None) -> Code:
    """Return a code that was issued at NOW and not yet used."""
    return Code(
        account_id="acct_1",
        handle="h",
        hash="0",
        app_account_id="acct_2",
        app_id="app_1",
        redirect_uri=URI,
        scope="profile",
        code_challenge=challenge,
        created_at=NOW,
        expires_at=code_expiry(NOW),
        used_at=None,
        kept_until=NOW,
    )


def exchange(verifier: str | None = None, uri: str = URI) -> Exchange:
    """Return the app's request to exchange the code."""
    return Exchange(app_id="app_1", code="ac_1", redirect_uri=uri, code_verifier=verifier)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (None, "profile"),
        ("", "profile"),
        ("balance", "balance"),
        ("balance profile", "balance profile"),
        ("profile balance profile", "profile balance"),
    ],
)
def test_scopes_are_kept_in_their_order_without_duplicates(text: str | None, scope: str) -> None:
    """An app that requests none gets the profile."""
    assert parse_scope(text) == scope


@pytest.mark.parametrize("text", ["email", "profile email", "Profile", "profile  balance", " "])
def test_an_unknown_scope_is_refused(text: str) -> None:
    """The refusal lists the scopes that exist."""
    with pytest.raises(InvalidScope) as refused:
        parse_scope(text)

    assert refused.value.detail == "scope may contain these values: profile balance."


def test_a_challenge_is_optional_and_needs_its_method() -> None:
    """Only SHA-256 is accepted, and a request without a proof key names no method."""
    assert parse_challenge(None, None) is None
    assert parse_challenge(CHALLENGE, "S256") == CHALLENGE


@pytest.mark.parametrize(
    ("challenge", "method", "detail"),
    [
        (None, "S256", "code_challenge_method needs a code_challenge."),
        (CHALLENGE, None, "code_challenge_method must be S256."),
        (CHALLENGE, "plain", "code_challenge_method must be S256."),
        (CHALLENGE, "s256", "code_challenge_method must be S256."),
        *(
            (wrong, "S256", "code_challenge must be a SHA-256 hash in base64url, 43 characters.")
            for wrong in ("", CHALLENGE[1:], CHALLENGE + "A", CHALLENGE[1:] + "=")
        ),
    ],
)
def test_an_invalid_challenge_is_refused(
    challenge: str | None, method: str | None, detail: str
) -> None:
    """The refusal says which of the two parameters is wrong."""
    with pytest.raises(InvalidRequest) as refused:
        parse_challenge(challenge, method)

    assert refused.value.detail == detail


def test_the_example_of_the_standard_matches() -> None:
    """RFC 7636, appendix B."""
    assert verifier_matches(CHALLENGE, VERIFIER)


@given(verifier=verifiers, other=verifiers)
def test_only_the_verifier_of_a_challenge_matches(verifier: str, other: str) -> None:
    """A challenge is the verifier's SHA-256 hash in base64url without padding."""
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")

    assert verifier_matches(challenge, verifier)
    assert verifier_matches(challenge, other) == (verifier == other)
    assert not verifier_matches(challenge, None)


@pytest.mark.parametrize("verifier", ["a" * 42, "a" * 129, "a" * 42 + "+", "a" * 43 + "\n", ""])
def test_a_malformed_verifier_never_matches(verifier: str) -> None:
    """Even if its SHA-256 is the challenge."""
    digest = hashlib.sha256(verifier.encode()).digest()

    assert not verifier_matches(base64.urlsafe_b64encode(digest).decode().rstrip("="), verifier)


def test_a_verifier_without_a_challenge_is_refused() -> None:
    """It shows that someone removed the challenge from the connect address."""
    assert verifier_matches(None, None)
    assert not verifier_matches(None, VERIFIER)


def test_a_code_is_exchanged_until_it_expires() -> None:
    """A code is valid for ten minutes; the last microsecond still counts."""
    end = NOW + 10 * 60 * MICROS_PER_SECOND

    assert exchange_refusal(code(), exchange(), NOW) is None
    assert exchange_refusal(code(), exchange(), end - 1) is None
    assert exchange_refusal(code(), exchange(), end) == "The code has expired."
    assert exchange_refusal(code(CHALLENGE), exchange(VERIFIER), NOW) is None


def test_a_code_is_exchanged_only_for_the_request_that_it_answers() -> None:
    """The redirect URI is identical, and the verifier belongs to the challenge."""
    elsewhere = exchange(uri=URI + "/")
    mismatch = "code_verifier does not match the code_challenge, or one was sent without the other."

    assert exchange_refusal(code(), elsewhere, NOW) == (
        "redirect_uri is not the one that the code was sent to."
    )
    assert exchange_refusal(code(CHALLENGE), exchange(), NOW) == mismatch
    assert exchange_refusal(code(), exchange(VERIFIER), NOW) == mismatch
    assert exchange_refusal(code(CHALLENGE), exchange("a" * 43), NOW) == mismatch


def test_a_token_is_valid_for_thirty_days() -> None:
    """The last microsecond still counts."""
    token = Token(
        "acct_1", "h", "0", "acct_2", "app_1", "profile", "c", NOW, token_expiry(NOW), None
    )
    end = NOW + 30 * 24 * 3600 * MICROS_PER_SECOND

    assert token.expires_at == end
    assert token.is_valid_at(end - 1)
    assert not token.is_valid_at(end)
