"""A real mail server that refuses, hangs, drops connections and comes back, as the test says."""

import asyncio
import re
import threading
from collections import Counter
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Literal, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.ports import free_port

Mood = Literal["accept", "busy", "refuse", "refuse recipient", "drop", "hang"]

OK = "250 OK"


class MailServer:
    """Receives mail on a port of this machine, on a thread of its own."""

    def __init__(self, *, credentials: tuple[str, str] | None = None) -> None:
        self.port = free_port()
        self.url = f"smtp://127.0.0.1:{self.port}"
        self.mood: Mood = "accept"
        self.accepted: list[EmailMessage] = []  # the server has said OK to these
        self.offered: list[EmailMessage] = []  # including those that it did not accept
        self.is_hanging = threading.Event()
        self.sign_ins: list[bool] = []  # whether each was right
        self._credentials = credentials
        self._controller: Controller | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, again on the same port."""
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            authenticator=self._authenticate,
            auth_require_tls=False,
            server_hostname="mail.example",  # otherwise it asks the DNS for its own name
        )
        self._controller.start()

    def stop(self) -> None:
        """Be away: nothing listens on the port."""
        if self._controller is not None:
            self._controller.stop(no_assert=True)
            self._controller = None

    def ids(self) -> Counter[str]:
        """Return how often each message was accepted, by its id."""
        return Counter(str(message["Message-ID"]) for message in self.accepted)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient."""
        del server, session, options
        if self.mood == "refuse recipient":
            return "550 No such mailbox"
        envelope.rcpt_tos.append(address)
        return OK

    async def handle_DATA(  # noqa: N802 - aiosmtpd's
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a message, or do what the test says."""
        del session
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.offered.append(message)
        if self.mood == "hang":
            self.is_hanging.set()
            await asyncio.sleep(3600)
        if self.mood == "drop":
            assert server.transport is not None
            server.transport.close()
            return OK  # nobody hears it
        if self.mood != "accept":
            return {"busy": "451 Try later", "refuse": "554 Never"}[self.mood]
        self.accepted.append(message)
        return OK

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: object
    ) -> AuthResult:
        del server, session, envelope, mechanism
        assert isinstance(given, LoginPassword)
        is_right = (given.login.decode(), given.password.decode()) == self._credentials
        self.sign_ins.append(is_right)
        return AuthResult(success=is_right, handled=False)


def code_in(text: str) -> str:
    """Return the code in a message."""
    found = re.search(r"^ +(\d{6})\r?$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


def link_in(text: str) -> str:
    """Return the path and query of the link that confirms an email or sets a new password."""
    found = re.search(r"https?://[^/\s]+(/(?:verify-email|reset)\?token=\w+)", text)
    assert found is not None, text
    return found[1]
