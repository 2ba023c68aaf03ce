"""One-time codes, passwords and the names of devices, without a database."""

import base64
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.errors import InvalidField
from ousel.people.rules import (
    CODE_STEP_SECONDS,
    device_name,
    issuer_name,
    matching_step,
    one_time_code,
    parse_password,
    provisioning_uri,
)

# RFC 6238, appendix B: the SHA-1 rows, of whose eight digits the last six are ours.
RFC_SECRET = base64.b32encode(b"12345678901234567890").decode()
RFC_VECTORS = {
    59: "94287082",
    1_111_111_109: "07081804",
    1_111_111_111: "14050471",
    1_234_567_890: "89005924",
    2_000_000_000: "69279037",
    20_000_000_000: "65353130",
}


@pytest.mark.parametrize(("seconds", "digits"), RFC_VECTORS.items())
def test_codes_are_those_of_rfc_6238(seconds: int, digits: str) -> None:
    """A code is what every authenticator app computes for that moment."""
    assert one_time_code(RFC_SECRET, seconds // CODE_STEP_SECONDS) == digits[-6:]


@pytest.mark.parametrize(
    ("steps_off", "accepted"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_a_clock_may_be_one_step_off(steps_off: int, accepted: bool) -> None:  # noqa: FBT001
    """The code before and after the present one count; those further away do not."""
    step_now = 41_152_263
    now = (step_now * CODE_STEP_SECONDS + 29) * MICROS_PER_SECOND
    code = one_time_code(RFC_SECRET, step_now + steps_off)
    expected = step_now + steps_off if accepted else None
    assert matching_step(RFC_SECRET, code, now, last_step=0) == expected


def test_a_used_step_and_earlier_ones_are_refused() -> None:
    """Whoever has seen a code being typed can use neither it nor an older one."""
    step_now = 41_152_263
    now = step_now * CODE_STEP_SECONDS * MICROS_PER_SECOND
    for step in (step_now - 1, step_now):
        code = one_time_code(RFC_SECRET, step)
        assert matching_step(RFC_SECRET, code, now, last_step=step_now) is None
    following = one_time_code(RFC_SECRET, step_now + 1)
    assert matching_step(RFC_SECRET, following, now, last_step=step_now) == step_now + 1


@pytest.mark.parametrize("code", ["", "1", "00000000", "äöü123", "१२३४५६", "\x00" * 6])
def test_an_invalid_code_never_matches(code: str) -> None:
    """Whatever is typed in place of six digits is a wrong code, not a failure."""
    assert matching_step(RFC_SECRET, code, 59 * MICROS_PER_SECOND, last_step=0) is None


def test_the_provisioning_address_has_the_secret_and_the_username() -> None:
    """The QR code's address names Ousel and the username, and carries the secret."""
    parts = urlsplit(provisioning_uri(RFC_SECRET, "ada", "Ousel"))
    assert (parts.scheme, parts.netloc, unquote(parts.path)) == ("otpauth", "totp", "/Ousel:ada")
    assert parse_qs(parts.query) == {"secret": [RFC_SECRET], "issuer": ["Ousel"]}


@pytest.mark.parametrize(
    ("portal_url", "name"),
    [
        ("https://pay.example", "Ousel (pay.example)"),
        ("https://test.pay.example", "Ousel (test.pay.example)"),
        ("https://pay.example:8443", "Ousel (pay.example 8443)"),
    ],
)
def test_each_server_has_a_name_of_its_own_in_authenticator_apps(
    portal_url: str, name: str
) -> None:
    """An app that holds codes for two servers can tell them apart; the name has no colon."""
    assert issuer_name(portal_url) == name


@pytest.mark.parametrize(
    ("length", "accepted"), [(11, False), (12, True), (1_000, True), (1_001, False)]
)
def test_a_password_has_12_to_1000_characters(length: int, accepted: bool) -> None:  # noqa: FBT001
    """Length is the one rule; which characters, and in which script, is free."""
    password = "ß" * length
    if accepted:
        assert parse_password(password) == password
    else:
        with pytest.raises(InvalidField, match=r"12|1000"):
            parse_password(password)


LINUX, ANDROID = "Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Linux; Android 15)"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
MACINTOSH = "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0)"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (f"{LINUX} Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (f"{WINDOWS} AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        (f"{ANDROID} AppleWebKit/537.36 Chrome/140.0 Safari/537.36", "Chrome on Android"),
        (f"{MACINTOSH} Version/18.0 Safari/605.1", "Safari on macOS"),
        (f"{IPHONE} Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("curl/8.0", "Unknown device"),
        ("", "Unknown device"),
    ],
)
def test_a_user_agent_becomes_a_device_name(user_agent: str, name: str) -> None:
    """What a browser sends about itself becomes a short name."""
    assert device_name(user_agent) == name
