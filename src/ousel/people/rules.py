"""Sessions, second factors and audit events; rules for passwords, one-time codes and attempts."""

import base64
import hashlib
import hmac
import struct
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final, Literal
from urllib.parse import quote, urlsplit

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.errors import InvalidField

PASSWORD_CHARACTERS_MIN: Final = 12
PASSWORD_CHARACTERS_MAX: Final = 1_000
SESSION_SECONDS: Final = 30 * 24 * 3600
AWAITS_CODE_SECONDS: Final = 10 * 60
IDENTITY_CHECK_SECONDS: Final = 10 * 60  # after this, actions that matter ask again
CODE_DIGITS: Final = 6
CODE_STEP_SECONDS: Final = 30
CODE_STEPS_TOLERATED: Final = 1  # a phone's clock may be half a minute off
RECOVERY_CODES: Final = 10
IPV6_CUSTOMER_BITS: Final = 64  # a provider gives each customer a prefix of this length


Stage = Literal["signed_in", "awaits_code"]


class Session(msgspec.Struct, frozen=True):
    """A browser that is signed in, or that has sent the password but no second factor yet."""

    hash: str
    account_id: str
    stage: Stage
    created_at: int
    last_used_at: int
    expires_at: int
    ip_address: str
    device: str
    identity_checked_at: int  # when a password, a code or a passkey was last accepted

    def is_valid_at(self, now: int) -> bool:
        """Return whether the session has not expired at this moment."""
        return now < self.expires_at

    def is_recently_checked_at(self, now: int) -> bool:
        """Return whether, at this moment, the last identity check is recent enough."""
        return now < self.identity_checked_at + IDENTITY_CHECK_SECONDS * MICROS_PER_SECOND


class AuthenticatorApp(msgspec.Struct, frozen=True):
    """The secret of an authenticator app; its codes are accepted once it has been confirmed."""

    account_id: str
    secret: str  # encrypted
    confirmed_at: int | None
    last_step: int
    proposed_by: str | None = None  # the hash of the session that has seen the secret last

    @property
    def is_confirmed(self) -> bool:
        """Whether a first code has turned the app on."""
        return self.confirmed_at is not None


class AuditEvent(msgspec.Struct, frozen=True):
    """Something that happened to an account."""

    account_id: str
    id: str
    kind: str
    detail: str
    ip_address: str
    device: str
    created_at: int


class AttemptLimit(msgspec.Struct, frozen=True):
    """How many attempts are allowed within a window."""

    attempts_max: int
    window_seconds: int


PAIR_LIMIT: Final = AttemptLimit(10, 15 * 60)  # one account from one address
IP_ADDRESS_LIMIT: Final = AttemptLimit(50, 15 * 60)  # any account from one address
ACCOUNT_LIMIT: Final = AttemptLimit(200, 3600)  # one account from anywhere
BROWSER_LIMIT: Final = AttemptLimit(10, 15 * 60)  # one account from a browser that it knows
SIGN_UP_LIMIT: Final = AttemptLimit(500, 3600)  # sign-ups from one address
# The wrong codes of one account add up to 30 a day at most.
CODE_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # codes, from browsers that are not known
KNOWN_CODE_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # the same, from browsers that it knows
EMAIL_CODE_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # codes by mail of one account
LINK_LIMIT: Final = AttemptLimit(50, 15 * 60)  # links by mail that do not work, from one address
MAIL_ACCOUNT_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # messages that one account asks for
MAIL_RECIPIENT_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # messages to one mailbox, from anyone
MAIL_IP_ADDRESS_LIMIT: Final = AttemptLimit(500, 3600)  # messages asked for from one IP address
RESET_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # reset links by mail for one account
NOTICE_LIMIT: Final = AttemptLimit(50, 24 * 3600)  # notices of one kind, to one account
PASSKEY_LIMIT: Final = AttemptLimit(10, 24 * 3600)  # wrong answers of one passkey from anywhere
CHALLENGE_LIMIT: Final = AttemptLimit(500, 3600)  # challenges for passkeys from one IP address
TEST_MONEY_LIMIT: Final = AttemptLimit(20, 3600)  # test money for one account of a sandbox
ATTEMPT_LIMITS: Final = (
    EMAIL_CODE_LIMIT,
    LINK_LIMIT,
    MAIL_ACCOUNT_LIMIT,
    MAIL_RECIPIENT_LIMIT,
    MAIL_IP_ADDRESS_LIMIT,
    RESET_LIMIT,
    NOTICE_LIMIT,
    PAIR_LIMIT,
    IP_ADDRESS_LIMIT,
    ACCOUNT_LIMIT,
    CODE_LIMIT,
    KNOWN_CODE_LIMIT,
    BROWSER_LIMIT,
    SIGN_UP_LIMIT,
    PASSKEY_LIMIT,
    CHALLENGE_LIMIT,
    TEST_MONEY_LIMIT,
)


def counted_address(address: str) -> str:
    """Return the address to count: for IPv6, the network of one customer."""
    try:
        parsed = ip_address(address)
    except ValueError:  # a proxy may send any text
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(IPv6Network((int(parsed), IPV6_CUSTOMER_BITS), strict=False))


def parse_password(password: str, *, param: str = "password") -> str:
    """Return the password, or raise InvalidField."""
    if len(password) < PASSWORD_CHARACTERS_MIN:
        raise InvalidField(
            f"The password needs {PASSWORD_CHARACTERS_MIN} characters or more.", param=param
        )
    if len(password) > PASSWORD_CHARACTERS_MAX:
        raise InvalidField(
            f"The password may have {PASSWORD_CHARACTERS_MAX} characters at most.", param=param
        )
    return password


def one_time_code(secret: str, step: int) -> str:
    """Return the code of a time step (RFC 6238 over RFC 4226, SHA-1, six digits)."""
    key = base64.b32decode(secret)
    digest = hmac.new(key, struct.pack(">Q", step), hashlib.sha1).digest()
    offset = digest[-1] & 0x0F
    number = struct.unpack(">I", digest[offset : offset + 4])[0] & 0x7FFFFFFF
    return f"{number % 10**CODE_DIGITS:0{CODE_DIGITS}d}"


def matching_step(secret: str, code: str, now: int, last_step: int) -> int | None:
    """Return the unused time step that a code belongs to, or None."""
    step_now = now // (CODE_STEP_SECONDS * MICROS_PER_SECOND)
    for step in range(step_now - CODE_STEPS_TOLERATED, step_now + CODE_STEPS_TOLERATED + 1):
        expected = one_time_code(secret, step).encode()
        if step > last_step and hmac.compare_digest(expected, code.encode()):
            return step
    return None


def provisioning_uri(secret: str, username: str, issuer: str) -> str:
    """Return the otpauth address that an authenticator app reads from a QR code."""
    label = quote(f"{issuer}:{username}", safe=":")
    return f"otpauth://totp/{label}?secret={secret}&issuer={quote(issuer)}"


def issuer_name(portal_url: str) -> str:
    """Return the name that authenticator apps show for this server, which no other server has."""
    # An authenticator app would take what follows a colon for the username.
    host = urlsplit(portal_url).netloc.replace(":", " ")
    return f"Ousel ({host})"


def device_name(user_agent: str) -> str:
    """Return a short name for a browser and its system, as a person would say it."""
    browsers = (
        ("Edg/", "Edge"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    )
    systems = (
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Android", "Android"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    )
    browser = next((name for mark, name in browsers if mark in user_agent), "")
    system = next((name for mark, name in systems if mark in user_agent), "")
    return " on ".join(part for part in (browser, system) if part) or "Unknown device"


def decoy_id(name: str) -> str:
    """Return the id that stands for a name without an account; no account has this id."""
    return f"none_{hashlib.sha256(name.lower().encode(errors='surrogatepass')).hexdigest()}"
