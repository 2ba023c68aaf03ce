"""Passkeys, the site that they are made for, and what a browser is asked to do with them."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ousel.kernel.texts import parse_printable_name
from ousel.kernel.urls import network_location

SITE_NAME: Final = "Ousel"
PASSKEYS_MAX: Final = 20  # of one account
NAME_CHARACTERS_MAX: Final = 60
CHALLENGE_SECONDS: Final = 5 * 60
# COSE numbers, the preferred one first: Ed25519, ECDSA with P-256, RSA
ALGORITHMS: Final = (-8, -7, -257)


class RelyingParty(msgspec.Struct, frozen=True):
    """The site that passkeys are made for, as browsers and authenticators name it."""

    id: str
    origin: str


class Passkey(msgspec.Struct, frozen=True):
    """A passkey of an account: its public key. The private key stays in an authenticator."""

    account_id: str
    id: str
    credential_id: str
    public_key: str
    name: str
    sign_count: int
    created_at: int
    last_used_at: int | None


class Challenge(msgspec.Struct, frozen=True):
    """A random text for a passkey to sign: once, before it expires, in the browser that asked."""

    hash: str
    browser_hash: str
    account_id: str  # empty if the passkey is to name the account
    expires_at: int


class Owner(msgspec.Struct, frozen=True):
    """Whom a new passkey is for, as the authenticator shows it."""

    account_id: str
    username: str
    display_name: str


def relying_party_of(portal_url: str) -> RelyingParty | None:
    """Return the site that passkeys of this portal are made for; None if there can be none.

    Browsers refuse passkeys for IP addresses. A portal on a loopback address is also reached as
    `localhost`, so its passkeys are made for that name.
    """
    parts = urlsplit(portal_url)
    host = parts.hostname or ""
    try:
        if not ip_address(host).is_loopback:
            return None
        host = "localhost"
    except ValueError:
        pass  # it is a name
    return RelyingParty(host, f"{parts.scheme}://{network_location(host, parts)}")


def parse_name(text: str) -> str:
    """Return a passkey's name without surrounding space, or raise InvalidField."""
    return parse_printable_name(text, NAME_CHARACTERS_MAX, param="name")


def user_handle(account_id: str) -> bytes:
    """Return what authenticators store as the user's id: it tells nothing about the account."""
    return hashlib.sha256(f"passkeys of {account_id}".encode()).digest()


def creation_options(
    site: RelyingParty, owner: Owner, challenge: str, known: Collection[str]
) -> dict[str, Any]:
    """Return the options for a new passkey on a device that has none of the known passkeys."""
    return {
        "rp": {"id": site.id, "name": SITE_NAME},
        "user": {
            "id": base64url(user_handle(owner.account_id)),
            "name": owner.username,
            "displayName": owner.display_name,
        },
        "challenge": challenge,
        "pubKeyCredParams": [{"type": "public-key", "alg": each} for each in ALGORITHMS],
        "timeout": CHALLENGE_SECONDS * 1000,
        "excludeCredentials": _descriptors(known),
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": True,
            "userVerification": "required",
        },
        "attestation": "none",
    }


def request_options(site: RelyingParty, challenge: str, allowed: Collection[str]) -> dict[str, Any]:
    """Return the options with which a browser asks for one of these passkeys, or for any."""
    return {
        "rpId": site.id,
        "challenge": challenge,
        "timeout": CHALLENGE_SECONDS * 1000,
        "allowCredentials": _descriptors(allowed),
        "userVerification": "required",
    }


def base64url(content: bytes) -> str:
    """Return bytes as text, without padding, as WebAuthn does."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _descriptors(credential_ids: Collection[str]) -> list[dict[str, str]]:
    return [{"type": "public-key", "id": each} for each in credential_ids]
