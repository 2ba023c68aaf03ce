"""Chromium's virtual authenticator: it makes and uses passkeys without anybody touching it."""

from typing import Any

from playwright.sync_api import Page

OPTIONS = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class VirtualAuthenticator:
    """The authenticator of one page, which recognizes its owner until told otherwise."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        self._id = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": OPTIONS})[
            "authenticatorId"
        ]

    def credentials(self) -> list[dict[str, Any]]:
        """Return the passkeys that it keeps."""
        kept: list[dict[str, Any]] = self._send("getCredentials")["credentials"]
        return kept

    def set_counter(self, counter: int) -> None:
        """Set the counter of the only passkey, as a copy that was made earlier has it."""
        [credential] = self.credentials()
        self.forget()
        self._send("addCredential", credential=credential | {"signCount": counter})

    def forget(self) -> None:
        """Delete all passkeys."""
        self._send("clearCredentials")

    def recognize(self, *, owner: bool) -> None:
        """Recognize whoever holds it as its owner, or not."""
        self._send("setUserVerified", isUserVerified=owner)

    def _send(self, command: str, **parameters: Any) -> Any:
        given = {"authenticatorId": self._id} | parameters
        return self._session.send(f"WebAuthn.{command}", given)
