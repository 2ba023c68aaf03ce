"""Rules of OAuth: scopes, lifetimes, proof keys, and whether a code may be exchanged."""

import base64
import hashlib
import hmac
import re
from typing import Final

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.oauth.refusals import InvalidRequest, InvalidScope

CODE_PREFIX: Final = "ac_"
CODE_SECONDS: Final = 10 * 60
TOKEN_SECONDS: Final = 30 * 24 * 3600
SCOPES: Final = ("profile", "balance")
SCOPE_DEFAULT: Final = "profile"

_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")  # RFC 7636 section 4.1
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # a SHA-256 hash in base64url, section 4.2


class Code(msgspec.Struct, frozen=True):
    """An authorization code as it is stored: its handle and hash, never the code itself."""

    account_id: str
    handle: str
    hash: str
    app_account_id: str
    app_id: str
    redirect_uri: str
    scope: str
    code_challenge: str | None
    created_at: int
    expires_at: int
    used_at: int | None
    kept_until: int


class Token(msgspec.Struct, frozen=True):
    """A user token as it is stored: its handle and hash, never the token itself."""

    account_id: str
    handle: str
    hash: str
    app_account_id: str
    app_id: str
    scope: str
    code_handle: str
    created_at: int
    expires_at: int
    last_used_at: int | None

    def is_valid_at(self, now: int) -> bool:
        """Return whether the token authenticates calls at this moment."""
        return now < self.expires_at


class Grant(msgspec.Struct, frozen=True):
    """An app's valid tokens, and codes that it has yet to exchange, with the same scope."""

    app_id: str
    app_name: str
    scope: str
    first_created_at: int
    last_expires_at: int
    last_used_at: int | None


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """An app's request to exchange a code."""

    app_id: str
    code: str
    redirect_uri: str
    code_verifier: str | None


def parse_scope(text: str | None) -> str:
    """Return the requested scopes without duplicates, or raise InvalidScope."""
    # RFC 6749 section 3.3: values separated by spaces, and a default if none is requested.
    requested = (text or SCOPE_DEFAULT).split(" ")
    if not set(requested) <= set(SCOPES):
        raise InvalidScope(f"scope may contain these values: {' '.join(SCOPES)}.")
    return " ".join(dict.fromkeys(requested))


def parse_challenge(challenge: str | None, method: str | None) -> str | None:
    """Return the proof key's challenge, or None if there is none; refuse an invalid one."""
    if challenge is None:
        if method is not None:
            raise InvalidRequest("code_challenge_method needs a code_challenge.")
        return None
    # RFC 7636 section 4.3: no method means plain; section 4.4.1: how to refuse it.
    if method != "S256":
        raise InvalidRequest("code_challenge_method must be S256.")
    if not _CHALLENGE.fullmatch(challenge):
        raise InvalidRequest("code_challenge must be a SHA-256 hash in base64url, 43 characters.")
    return challenge


def verifier_matches(challenge: str | None, verifier: str | None) -> bool:
    """Return whether the verifier proves that this client is the one that requested the code."""
    if challenge is None:
        # RFC 9700 section 2.1.1: a verifier without a challenge indicates a downgrade attack.
        return verifier is None
    if verifier is None or not _VERIFIER.fullmatch(verifier):
        return False
    # RFC 7636 section 4.6: BASE64URL-ENCODE(SHA256(ASCII(code_verifier))) == code_challenge
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode()
    return hmac.compare_digest(digest.rstrip("="), challenge)


def exchange_refusal(code: Code, exchange: Exchange, now: int) -> str | None:
    """Return why an unused code of this app may not be exchanged, or None if it may."""
    # RFC 6749 section 4.1.2: a lifetime of at most ten minutes.
    if now >= code.expires_at:
        return "The code has expired."
    # RFC 6749 section 4.1.3: the redirect URI is identical to the one that was used.
    if exchange.redirect_uri != code.redirect_uri:
        return "redirect_uri is not the one that the code was sent to."
    if not verifier_matches(code.code_challenge, exchange.code_verifier):
        return "code_verifier does not match the code_challenge, or one was sent without the other."
    return None


def code_expiry(created_at: int) -> int:
    """Return the first moment at which a code is no longer valid."""
    return created_at + CODE_SECONDS * MICROS_PER_SECOND


def token_expiry(created_at: int) -> int:
    """Return the first moment at which a token is no longer valid."""
    return created_at + TOKEN_SECONDS * MICROS_PER_SECOND
