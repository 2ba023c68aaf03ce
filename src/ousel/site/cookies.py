"""The site's two cookies: one for the session, and one that identifies the browser.

The second is for the limits of sign-in and, without a session, for form tokens.
"""

from typing import Final

from ousel.http.messages import Headers, RawHeader

VISITOR_SECONDS: Final = 90 * 24 * 3600  # as long as an account remembers a browser


class Cookies:
    """Reads and sets the session cookie and the visitor cookie."""

    def __init__(self, *, secure: bool) -> None:
        """Use the strictest cookie attributes that the site's scheme allows."""
        prefix = "__Host-" if secure else ""
        self._session_name = f"{prefix}ousel_session"
        self._visitor_name = f"{prefix}ousel_visitor"
        self._attributes = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")

    def session(self, headers: Headers) -> str | None:
        """Return the session secret that the browser sent."""
        return _cookie(headers, self._session_name)

    def visitor(self, headers: Headers) -> str | None:
        """Return the random visitor id that the browser sent."""
        return _cookie(headers, self._visitor_name)

    def sign_in(self, secret: str, seconds: int) -> RawHeader:
        """Return the header that stores a session secret in the browser."""
        return self._set(self._session_name, secret, seconds)

    def sign_out(self) -> RawHeader:
        """Return the header that deletes the session cookie."""
        return self._set(self._session_name, "", 0)

    def remember_visitor(self, visitor: str) -> RawHeader:
        """Return the header that stores a visitor id in the browser."""
        return self._set(self._visitor_name, visitor, VISITOR_SECONDS)

    def _set(self, name: str, value: str, seconds: int) -> RawHeader:
        return (b"set-cookie", f"{name}={value}; Max-Age={seconds}{self._attributes}".encode())


def _cookie(headers: Headers, name: str) -> str | None:
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name and value:
            return value
    return None
