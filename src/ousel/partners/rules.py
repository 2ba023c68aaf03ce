"""Apps, keys and refused calls, and which names, redirect URIs and origins are valid."""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

from ousel.kernel.errors import InvalidField
from ousel.kernel.texts import parse_printable_name
from ousel.kernel.urls import is_loopback, network_location

NAME_CHARACTERS_MAX: Final = 80
URL_CHARACTERS_MAX: Final = 2_000
OVERLAP_SECONDS_DEFAULT: Final = 24 * 3600
OVERLAP_SECONDS_MAX: Final = 30 * 24 * 3600

# What Ousel adds to a redirect URI. RFC 6749 section 3.1: no parameter may occur twice.
_ANSWER_PARAMETERS: Final = {"code", "state", "iss", "error", "error_description"}

# With other characters, a browser and Python could disagree about which part is the host.
_HOST_AND_PORT: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?")


class App(msgspec.Struct, frozen=True):
    """A partner's application."""

    account_id: str
    id: str
    name: str
    created_at: int


class Key(msgspec.Struct, frozen=True):
    """A partner key as it is stored: its handle and hash, never the key itself."""

    account_id: str
    handle: str
    app_id: str
    name: str
    hash: str
    created_at: int
    stored_end: int | None  # negative if the key was revoked
    last_used_at: int | None

    @property
    def ends_at(self) -> int | None:
        """When the key ends or ended; for a revoked key, when it was revoked."""
        return None if self.stored_end is None else abs(self.stored_end)

    @property
    def label(self) -> str:
        """The key's name and handle, which people may see: they do not authenticate anyone."""
        return f"“{self.name}” ({self.handle}…)"

    def is_valid_at(self, now: int) -> bool:
        """Return whether the key authenticates calls at this moment."""
        return self.stored_end is None or now < self.stored_end


class ApiError(msgspec.Struct, frozen=True):
    """A refused call: which route and why, never what the call contained."""

    account_id: str
    app_id: str
    request_id: str
    status: int
    code: str
    method: str
    path: str  # the route's pattern, such as /v1/charges/{id}
    created_at: int


class RepeatableRequest(msgspec.Struct, frozen=True):
    """What makes a request for an app or a key recognizable when it is sent again."""

    parent: str  # a secret that only the person's browser and this server know
    purpose: str  # what was asked for, such as the form's address and the key's name


def parse_name(text: str, *, param: str = "name") -> str:
    """Return an app's or key's name without surrounding space, or raise InvalidField."""
    return parse_printable_name(text, NAME_CHARACTERS_MAX, param=param)


def parse_redirect_uri(text: str) -> str:
    """Return the redirect URI unchanged, since it is compared exactly, or raise InvalidField."""
    parts = parse_url(text, param="redirect_uri")
    if parts.fragment or text.endswith("#"):
        raise InvalidField("A redirect URI must not have a fragment (#…).", param="redirect_uri")
    doubled = _ANSWER_PARAMETERS & dict(parse_qsl(parts.query, keep_blank_values=True)).keys()
    if doubled:
        raise InvalidField(
            f"Ousel itself adds {' and '.join(sorted(doubled))} to the address,"
            " so a redirect URI must not contain such a parameter.",
            param="redirect_uri",
        )
    return text


def parse_origin(text: str) -> str:
    """Return the origin as a browser writes it, or raise InvalidField."""
    parts = parse_url(text, param="origin")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise InvalidField(
            "An origin has only a scheme, a host and a port, such as https://shop.example.",
            param="origin",
        )
    return f"{parts.scheme}://{network_location(parts.hostname or '', parts)}"


def parse_overlap_seconds(seconds: int) -> int:
    """Return how long a rotated key stays valid, or raise InvalidField."""
    if not 0 <= seconds <= OVERLAP_SECONDS_MAX:
        raise InvalidField("The overlap must be between 0 seconds and 30 days.", param="overlap")
    return seconds


def check_below_limit(count: int, limit: int, what: str, cure: str, *, param: str) -> None:
    """Raise InvalidField if the limit is already reached; `cure` is the verb that makes room."""
    if count >= limit:
        raise InvalidField(f"There are already {limit} {what}: {cure} one first.", param=param)


def parse_url(text: str, *, param: str) -> SplitResult:
    """Return the parts of an absolute https address, or an http one on a loopback host."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        reachable = host != "" and parts.port != 0
    except ValueError:
        raise InvalidField(f"{text[:100]} is not an address.", param=param) from None
    if len(text) > URL_CHARACTERS_MAX or not text.isascii() or not text.isprintable():
        raise InvalidField(
            f"An address has at most {URL_CHARACTERS_MAX} printable ASCII characters.", param=param
        )
    if " " in text or "\\" in text or not reachable or not _HOST_AND_PORT.fullmatch(parts.netloc):
        raise InvalidField("The address must have a host, and no spaces or user name.", param=param)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise InvalidField(
            "The address must begin with https:// (or http:// on a loopback host).", param=param
        )
    return parts
