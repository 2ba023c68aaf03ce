"""How accounts are named: what a username, an email and a display name may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.accounts.rules import (
    RESERVED_USERNAMES,
    normalize_identifier,
    parse_display_name,
    parse_email,
    parse_username,
)
from ousel.kernel.account_numbers import account_number
from ousel.kernel.errors import InvalidField
from ousel.ledger.refusals import AccountNotFound


@pytest.mark.parametrize("text", ["ada", "Ada", "@ada", "a_1", "x" * 30, "___", "123"])
def test_a_username_is_3_to_30_letters_digits_and_underscores(text: str) -> None:
    """It is kept in lower case, without the @."""
    assert parse_username(text) == text.lower().removeprefix("@")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "ab",
        "x" * 31,
        "a b",
        "a-b",
        "a.b",
        "é_é",
        "ada\n",
        "@@ada",
        "ada\x00",
        "\u017f" * 3,
        "\u212aelvin",
    ],
)
def test_an_invalid_username_is_refused(text: str) -> None:
    """Too short, too long, or with another character."""
    with pytest.raises(InvalidField, match="username must be 3 to 30") as refused:
        parse_username(text)
    assert refused.value.param == "username"


@pytest.mark.parametrize("text", [*sorted(RESERVED_USERNAMES), "OUSEL", "@Admin"])
def test_a_reserved_username_is_refused(text: str) -> None:
    """Nobody can take the name of the service itself."""
    with pytest.raises(InvalidField, match="reserved"):
        parse_username(text)


@pytest.mark.parametrize(
    ("text", "email"),
    [
        ("Ada@Example.COM", "ada@example.com"),
        (" ada@example.com\n", "ada@example.com"),
        ("a+b.c@mail.example.co.uk", "a+b.c@mail.example.co.uk"),
        ("é@exämple.de", "é@exämple.de"),
        (f"{'a' * 242}@example.com", f"{'a' * 242}@example.com"),
    ],
)
def test_an_email_is_stored_in_lower_case(text: str, email: str) -> None:
    """Surrounding space is removed and letters become lower case; the rest stays."""
    assert parse_email(text) == email


@pytest.mark.parametrize(
    "text",
    [
        *("", "ada", "@example.com", "ada@", "ada@example", "ada@.com", "ada@example.", "a@b@c.de"),
        *("a b@example.com", "a\x00@example.com", "ada@exa mple.com", "ada@example..com"),
        *("a\x9b2J@example.com", "\u202emoc@example.com", "a\u200bda@example.com"),
        f"{'a' * 243}@example.com",
    ],
)
def test_an_invalid_email_is_refused(text: str) -> None:
    """Without a domain of two parts, with control or invisible characters, or too long."""
    with pytest.raises(InvalidField) as refused:
        parse_email(text)
    assert refused.value.param == "email"


@pytest.mark.parametrize("text", ["Ada", " Ada Lovelace ", "x" * 100, "[bold]", "é 💶"])
def test_a_display_name_is_1_to_100_printable_characters(text: str) -> None:
    """It is kept as it is, without surrounding space."""
    assert parse_display_name(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("山田\u3000太郎", "山田 太郎"),  # as Japanese keyboards type it
        ("Ada\xa0Lovelace\u2003", "Ada Lovelace"),
        ("می\u200cروم", "می\u200cروم"),
        ("ශ්\u200dරී", "ශ්\u200dරී"),
    ],
)
def test_names_of_other_scripts_are_accepted(text: str, name: str) -> None:
    """Their spaces become plain ones, and what joins or separates letters stays."""
    assert parse_display_name(text) == name


@pytest.mark.parametrize(
    "text", ["", " ", "x" * 101, "\u200cA", "a \u200d", "a\nb", "a\x00", "\u202egnp", "\ud800"]
)
def test_an_invalid_display_name_is_refused(text: str) -> None:
    """Empty, too long, or with a character that cannot be printed or that turns text around."""
    with pytest.raises(InvalidField) as refused:
        parse_display_name(text)
    assert refused.value.param == "display_name"


@given(serial=st.integers(1, 10**10 - 1))
def test_an_account_number_normalizes_to_itself(serial: int) -> None:
    """In either case, each right number is its own one spelling."""
    number = account_number(serial)
    assert (
        normalize_identifier(number, param="to")
        == normalize_identifier(number.lower(), param="to")
        == number
    )


@pytest.mark.parametrize("text", ["@\u212aelvin", "@\u017fam", "\uff2f\uff35001234567890"])
def test_a_letter_outside_ascii_names_no_account(text: str) -> None:
    """Even if it looks like one in ASCII, or becomes one in lower case."""
    with pytest.raises(AccountNotFound):
        normalize_identifier(text, param="to")


@given(text=st.text())
def test_any_text_is_normalized_or_refused(text: str) -> None:
    """Normalizing never fails otherwise, and what it returns is its own normal form."""
    try:
        name = normalize_identifier(text, param="to")
    except AccountNotFound:
        return
    assert normalize_identifier(name, param="to") == name
    assert name.lower() == text.lower()


@given(
    local=st.from_regex(r"[a-zA-Z0-9.+_-]{1,20}", fullmatch=True),
    domain=st.from_regex(r"[a-zA-Z0-9-]{1,10}(\.[a-zA-Z0-9-]{1,10}){1,3}", fullmatch=True),
)
def test_an_email_that_opens_an_account_also_finds_it(local: str, domain: str) -> None:
    """What sign-up keeps and what a look-up asks for are the same spelling."""
    email = f"{local}@{domain}"
    assert normalize_identifier(email.upper(), param="to") == parse_email(email)
