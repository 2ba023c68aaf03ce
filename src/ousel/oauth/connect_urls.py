"""The connect address, to which apps send people, and the callback addresses that lead back."""

from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from ousel.oauth.refusals import ConnectAddressWrong, InvalidRequest

QUERY_BYTES_MAX: Final = 8 * 1024
IDENTIFIER_CHARACTERS_MAX: Final = 2_000


class ConnectParameters(msgspec.Struct, frozen=True):
    """The parameters of a connect address: each name with all of its values, as bytes."""

    values: dict[str, list[bytes]]

    def only(self, name: str) -> str | None:
        """Return the parameter's only value, or None; refuse a second value."""
        value = self.only_bytes(name)
        return None if value is None else value.decode("latin-1")

    def only_bytes(self, name: str) -> bytes | None:
        """Return the parameter's only value as bytes, or None; refuse a second value."""
        # RFC 6749 section 3.1: an empty parameter counts as omitted, and no parameter may be
        # sent twice.
        values = self.values.get(name, [])
        if len(values) > 1:
            raise InvalidRequest(f"{name} must not be sent more than once.")
        return values[0] or None if values else None


def parse_connect_query(query_string: bytes) -> ConnectParameters:
    """Return the parameters of a connect address, including unknown ones."""
    if len(query_string) > QUERY_BYTES_MAX:
        raise ConnectAddressWrong(f"The address has more than {QUERY_BYTES_MAX} bytes.")
    values: dict[str, list[bytes]] = {}
    for part in query_string.split(b"&"):
        # Bytes, not text: state may contain any bytes and is sent back unchanged.
        name, _, value = part.replace(b"+", b" ").partition(b"=")
        values.setdefault(unquote_to_bytes(name).decode("latin-1"), []).append(
            unquote_to_bytes(value)
        )
    return ConnectParameters(values)


def required_parameter(parameters: ConnectParameters, name: str) -> str:
    """Return a parameter without which we must not redirect, or raise ConnectAddressWrong."""
    try:
        value = parameters.only(name)
    except InvalidRequest as refusal:
        raise ConnectAddressWrong(refusal.detail, param=name) from refusal
    if value is None:
        raise ConnectAddressWrong(f"The address lacks {name}.", param=name)
    if len(value) > IDENTIFIER_CHARACTERS_MAX or not value.isascii() or not value.isprintable():
        raise ConnectAddressWrong(f"The address has an invalid {name}.", param=name)
    return value


def callback_url(redirect_uri: str, parameters: dict[str, str | bytes | None]) -> str:
    """Return the redirect URI with these parameters added, except those that are None."""
    # RFC 6749 section 3.1.2: the redirect URI's own query must be retained.
    separator = "&" if "?" in redirect_uri else "?"
    encoded = "&".join(
        f"{name}={quote_from_bytes(value.encode() if isinstance(value, str) else value, safe='')}"
        for name, value in parameters.items()
        if value is not None
    )
    return f"{redirect_uri}{separator}{encoded}"
