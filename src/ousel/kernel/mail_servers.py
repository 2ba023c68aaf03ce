"""The mail server that a URL such as smtp://user:password@mail.example:587 names."""

from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from ousel.kernel.urls import is_loopback

Encryption = Literal["starttls", "tls", "none"]

_PORTS: Final = {"smtp": 587, "smtps": 465}


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """Where mail is handed over, and how."""

    host: str
    port: int
    encryption: Encryption
    username: str | None
    password: str


def mail_server_at(url: str) -> MailServer:
    """Return the mail server at this URL, or raise ValueError.

    Only a server on this machine may be used without encryption.
    """
    parts = urlsplit(url)
    host = parts.hostname
    if parts.scheme not in _PORTS or not host or parts.port == 0:
        raise ValueError("not the address of a mail server")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("the address of a mail server has no path, query or fragment")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not (username + password).isascii():
        raise ValueError("a user and a password in ASCII are needed: smtplib sends no others")
    encryption: Encryption = "tls" if parts.scheme == "smtps" else "starttls"
    if parts.scheme == "smtp" and is_loopback(host):
        encryption = "none"
    return MailServer(
        host=host,
        port=parts.port or _PORTS[parts.scheme],
        encryption=encryption,
        username=username or None,
        password=password,
    )
