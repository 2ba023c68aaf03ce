"""The connect address that an app sends people to, and the addresses that send them back."""

from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from ousel.oauth.refusals import ConnectAddressWrong, InvalidRequest

QUERY_BYTES_MAX: Final = 8 * 1024
IDENTIFIER_CHARACTERS_MAX: Final = 2_000


class ConnectParameters(msgspec.Struct, frozen=True):
    """The parameters of a connect address: each name with all its values, as bytes."""

    values: dict[str, list[bytes]]

    def only(self, name: str) -> str | None:
        """Return the one value of a parameter, None where it has none, or refuse a second one."""
        value = self.only_bytes(name)
        return None if value is None else value.decode("latin-1")

    def only_bytes(self, name: str) -> bytes | None:
        """Return the one value of a parameter byte for byte, or refuse a second one."""
        # RFC 6749 section 3.1: a parameter without a value counts as omitted, and none may be
        # there more than once.
        values = self.values.get(name, [])
        if len(values) > 1:
            raise InvalidRequest(f"{name} may be given once.")
        return values[0] or None if values else None


def parse_connect_query(query_string: bytes) -> ConnectParameters:
    """Return the parameters of a connect address; those that nobody knows do no harm."""
    if len(query_string) > QUERY_BYTES_MAX:
        raise ConnectAddressWrong(f"The address has more than {QUERY_BYTES_MAX} bytes.")
    values: dict[str, list[bytes]] = {}
    for part in query_string.split(b"&"):
        # Taken apart as bytes: state may hold any, and goes back as it came.
        name, _, value = part.replace(b"+", b" ").partition(b"=")
        values.setdefault(unquote_to_bytes(name).decode("latin-1"), []).append(
            unquote_to_bytes(value)
        )
    return ConnectParameters(values)


def required_parameter(asked: ConnectParameters, name: str) -> str:
    """Return a parameter that says who asks; without it nobody may be sent anywhere."""
    try:
        value = asked.only(name)
    except InvalidRequest as refusal:
        raise ConnectAddressWrong(refusal.detail, param=name) from refusal
    if value is None:
        raise ConnectAddressWrong(f"The address lacks {name}.", param=name)
    if len(value) > IDENTIFIER_CHARACTERS_MAX or not value.isascii() or not value.isprintable():
        raise ConnectAddressWrong(f"The address has a {name} that cannot be one.", param=name)
    return value


def callback_url(redirect_uri: str, parameters: dict[str, str | bytes | None]) -> str:
    """Return the redirect URI with these parameters, of which those that are None are left out."""
    # RFC 6749 section 3.1.2: a query that the redirect URI has already is kept.
    mark = "&" if "?" in redirect_uri else "?"
    encoded = "&".join(
        f"{name}={quote_from_bytes(value.encode() if isinstance(value, str) else value, safe='')}"
        for name, value in parameters.items()
        if value is not None
    )
    return f"{redirect_uri}{mark}{encoded}"
