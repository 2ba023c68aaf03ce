"""The mail server that the settings name, and how it may be used."""

from pathlib import Path

import pytest

from ousel.kernel.mail_servers import MailServer, mail_server_at
from ousel.kernel.settings import SettingError, Settings, settings_from

FROM = {"OUSEL_MAIL_FROM": "Ousel <pay@example.com>"}


@pytest.mark.parametrize(
    ("url", "host", "port", "encryption"),
    [
        ("smtp://mail.example", "mail.example", 587, "starttls"),
        ("smtp://mail.example:25", "mail.example", 25, "starttls"),
        ("smtps://mail.example", "mail.example", 465, "tls"),
        ("smtps://127.0.0.1:4650", "127.0.0.1", 4650, "tls"),
        ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, "none"),
        ("smtp://127.9.9.9", "127.9.9.9", 587, "none"),
        ("smtp://[::1]:2525", "::1", 2525, "none"),
        ("smtp://localhost:2525/", "localhost", 2525, "none"),
        ("smtp://localhost.example", "localhost.example", 587, "starttls"),
        ("smtp://10.0.0.1", "10.0.0.1", 587, "starttls"),
    ],
)
def test_only_a_server_on_this_machine_is_used_without_encryption(
    url: str, host: str, port: int, encryption: str
) -> None:
    """Everywhere else, STARTTLS or TLS is demanded."""
    found = mail_server_at(url)

    assert (found.host, found.port, found.encryption) == (host, port, encryption)
    assert (found.username, found.password) == (None, "")


def test_credentials_are_decoded() -> None:
    """A password may contain any character, percent-encoded."""
    found = mail_server_at("smtp://pay%40example.com:p%2Fq%3A%40@mail.example:587")

    assert found == MailServer(
        host="mail.example",
        port=587,
        encryption="starttls",
        username="pay@example.com",
        password="p/q:@",
    )


@pytest.mark.parametrize(
    "url",
    [
        *("mail.example", "http://mail.example", "smtp://", "smtp://mail.example:port"),
        *("smtp://mail.example:0", "smtp://mail.example/path", "smtp://mail.example?tls=no"),
        *("smtp://mail.example#top", "smtp://[::1"),
    ],
)
def test_another_address_is_refused_without_repeating_its_password(url: str) -> None:
    """The message names the variable and the rule, and nothing of the value."""
    with pytest.raises(SettingError, match="OUSEL_MAIL_URL must be off, or an address") as refused:
        settings_from({"OUSEL_MAIL_URL": url.replace("//", "//pay:geheim@"), **FROM})

    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("credentials", ["pay:gehéim", "pay:geh%C3%A9im", "p%E9y:geheim"])
def test_credentials_that_cannot_be_sent_are_refused(credentials: str) -> None:
    """Otherwise no mail could be sent, and the log would show a part of the password."""
    with pytest.raises(SettingError, match="a user and a password in ASCII") as refused:
        settings_from({"OUSEL_MAIL_URL": f"smtp://{credentials}@mail.example", **FROM})

    assert "geh" not in str(refused.value)


def test_mail_is_off_unless_both_settings_are_there(tmp_path: Path) -> None:
    """A server needs a sender; the address may be in a file, since it contains a password."""
    file = tmp_path / "mail"
    file.write_text("smtps://pay:geheim@mail.example\n")

    found = settings_from({"OUSEL_MAIL_URL_FILE": str(file), **FROM})

    assert found.mail_url == "smtps://pay:geheim@mail.example"
    assert found.mail_from == "Ousel <pay@example.com>"
    assert settings_from({"OUSEL_MAIL_URL": "off", "OUSEL_MAIL_FROM": "off"}) == Settings()
    with pytest.raises(SettingError, match="OUSEL_MAIL_FROM must be set"):
        settings_from({"OUSEL_MAIL_URL": "smtp://localhost"})


@pytest.mark.parametrize(
    "sender",
    [
        *("nobody", "a@b\nBcc: c@d.example", "<>", "a b@c.example", "@x"),
        *("Ousel <pay@example.com>, x@y.com", "pay@example.com; x@y.com"),
    ],
)
def test_a_sender_is_one_address(sender: str) -> None:
    """Anything else is refused when Ousel starts, not when it sends."""
    with pytest.raises(SettingError, match="OUSEL_MAIL_FROM must be off, or an address"):
        settings_from({"OUSEL_MAIL_URL": "smtp://localhost", "OUSEL_MAIL_FROM": sender})
