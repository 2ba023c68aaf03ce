"""Hands messages over to a mail server by SMTP, on daemon threads."""

import asyncio
import contextlib
import smtplib
import socket
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from functools import partial
from typing import Final

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.mail_servers import MailServer
from ousel.kernel.threads import run_on_thread
from ousel.mail.rules import Mail

REPLY_SECONDS_MAX: Final = 30  # for each reply of the server
REASON_CHARACTERS_MAX: Final = 200

_PERMANENT: Final = 500  # SMTP replies from here on mean: never
_CLOSING: Final = 421  # the server takes no messages at the moment, whatever they are
_NOT_IN_PLAIN_ADDRESS: Final = frozenset('<>()[]\\,;:"')
_ENCODED_WORD: Final = "=?"  # mail programs would decode what follows into another address


class NotSent(Exception):
    """The server did not accept the message; `is_refused` if it says that it never will.

    `may_accept_others` says that the reason is this message alone, so that others may be accepted.
    """

    def __init__(
        self, reason: str, *, is_refused: bool = False, may_accept_others: bool = False
    ) -> None:
        """Say why, in one line."""
        super().__init__(reason)
        self.is_refused = is_refused
        self.may_accept_others = may_accept_others


class SmtpClient:
    """Hands over one message at a time, each on a connection of its own."""

    def __init__(self, server: MailServer, sender: str) -> None:
        """Send from this address through this server."""
        self._server = server
        self._sender = sender
        self._sender_address = parseaddr(sender)[1]
        self._domain = self._sender_address.partition("@")[2]

    async def send(self, mail: Mail, seconds_max: float) -> None:
        """Return once the server has taken the message over, or raise NotSent.

        If it takes longer than `seconds_max`, the connection is cut.
        """
        attempt = _Attempt(self._server, self._domain)
        try:
            message = self._message(mail)
            async with asyncio.timeout(seconds_max):
                await run_on_thread(
                    "mail", partial(attempt.run, message, self._sender_address, mail.recipient)
                )
        except TimeoutError:
            raise NotSent("the mail server took too long") from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise _not_sent(error) from error
        finally:
            attempt.cut()

    def _message(self, mail: Mail) -> EmailMessage:
        """Return the message with both forms of its text, or raise ValueError."""
        recipient = mail.recipient
        is_plain = not set(recipient) & _NOT_IN_PLAIN_ADDRESS and _ENCODED_WORD not in recipient
        if not is_plain or parseaddr(recipient) != ("", recipient):
            raise ValueError("the address cannot be written in a message")
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = recipient
        message["Subject"] = mail.subject
        seconds = mail.created_at / MICROS_PER_SECOND
        message["Date"] = format_datetime(datetime.fromtimestamp(seconds, tz=UTC))
        # The same for each attempt, so that a mailbox can recognize a second copy.
        message["Message-ID"] = f"<{mail.id}@{self._domain}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.text)
        message.add_alternative(mail.html, subtype="html")
        return message


class _Attempt:
    """One connection to the server, which can be cut from another thread."""

    def __init__(self, server: MailServer, domain: str) -> None:
        self._server = server
        self._domain = domain
        self._smtp: smtplib.SMTP | None = None
        self._is_cut = False

    def run(self, message: EmailMessage, sender: str, recipient: str) -> None:
        """Send the message; the server has taken it over when this returns."""
        try:
            smtp = self._open()
            smtp.send_message(message, sender, [recipient])
            with contextlib.suppress(OSError, smtplib.SMTPException):
                smtp.putcmd("quit")  # the reply does not matter any more
        finally:
            if self._smtp is not None:
                self._smtp.close()

    def cut(self) -> None:
        """End the connection, so that a thread that still uses it ends."""
        self._is_cut = True
        sock = None if self._smtp is None else self._smtp.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _open(self) -> smtplib.SMTP:
        """Return a connection on which the server takes messages.

        Whatever fails here, such as an expired certificate, says nothing about the message.
        """
        try:
            smtp = self._smtp = self._connect()
            if self._is_cut:
                raise NotSent("the mail server took too long")
            if self._server.encryption == "starttls":
                smtp.starttls(context=ssl.create_default_context())
            if self._server.username is not None:
                smtp.login(self._server.username, self._server.password)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            raise NotSent(_reason(error)) from error
        return smtp

    def _connect(self) -> smtplib.SMTP:
        server = self._server
        if server.encryption == "tls":
            return smtplib.SMTP_SSL(
                server.host,
                server.port,
                local_hostname=self._domain,
                timeout=REPLY_SECONDS_MAX,
                context=ssl.create_default_context(),
            )
        return smtplib.SMTP(
            server.host, server.port, local_hostname=self._domain, timeout=REPLY_SECONDS_MAX
        )


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:REASON_CHARACTERS_MAX]


def _not_sent(error: Exception) -> NotSent:
    """Return why the message was not sent, and whether the server will never accept it."""
    code: int
    text: bytes | str
    match error:
        case smtplib.SMTPRecipientsRefused(recipients=refused):
            code, text = next(iter(refused.values()))
        case smtplib.SMTPDataError(smtp_code=code, smtp_error=text):
            pass
        case _:
            is_refused = isinstance(error, smtplib.SMTPNotSupportedError | ValueError)
            return NotSent(_reason(error), is_refused=is_refused, may_accept_others=is_refused)
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    reason = f"{code} {words}"[:REASON_CHARACTERS_MAX]
    return NotSent(reason, is_refused=code >= _PERMANENT, may_accept_others=code != _CLOSING)
