"""`ousel account`, while a server runs: what it does holds for the server's next request."""

import re
from unittest.mock import AsyncMock

import pytest

from ousel.accounts.service import AccountService
from ousel.kernel.account_numbers import check_digits_match
from ousel.kernel.errors import DatabaseUnavailable
from tests.cli.commands import Operator, assert_fails
from tests.support.accounts import unique_name

pytestmark = pytest.mark.one_engine

FIELDS = [
    *("id", "username", "account_number", "display_name", "status", "balance", "entries"),
    *("created_at", "email", "email_verified"),
]


def test_an_account_is_created_and_shown(operator: Operator) -> None:
    """With `--json` as one JSON object, without it as a table of the same fields."""
    username = unique_name()
    options = (f"--username={username.upper()}", f"--email={username}@Example.com", "--name=Ada L")

    created = operator.run("account", "create", *options, "--json").json
    shown = operator.run("account", "show", f"@{username}", "--json").json
    plain = operator.run("account", "show", created["account_number"]).rows

    assert list(created) == FIELDS
    assert created["username"] == username
    assert created["email"] == f"{username}@example.com"
    assert created["email_verified"]
    assert created["display_name"] == "Ada L"
    assert created["status"] == "active"
    assert created["balance"] == 0
    assert re.fullmatch(r"acct_[0-9a-v]{26}", created["id"])
    assert check_digits_match(created["account_number"])
    assert shown == created
    assert plain == {name: str(value) for name, value in created.items()} | {"balance": "0.00"}


def test_names_are_printed_as_they_are(operator: Operator) -> None:
    """Brackets, colons and long names are text, never markup; nothing is cut off or wrapped."""
    for name in ("[/b] :smile: [red]x", "x" * 100, "é 💶", "a [link=x]b"):
        username = unique_name()
        options = (f"--username={username}", f"--email={username}@example.com", f"--name={name}")
        created = operator.run("account", "create", *options).rows

        assert created["display_name"] == name
        assert operator.run("account", "show", f"@{username}").rows == created


@pytest.mark.slow
def test_a_password_is_read_from_standard_input(operator: Operator) -> None:
    """Only its hash is kept; a short one, or bytes that are no text, open no account."""
    username = unique_name()
    options = (f"--username={username}", f"--email={username}@example.com", "--name=Ada")

    short = operator.run("account", "create", *options, "--password-stdin", stdin=b"short\n")
    nothing = operator.run("account", "create", *options, "--password-stdin")
    bytes_ = operator.run("account", "create", *options, "--password-stdin", stdin=b"\xff" * 20)
    good = operator.run(
        "account", "create", *options, "--password-stdin", stdin=b"correct horse battery\nmore\n"
    )

    assert_fails(short, "password")
    assert_fails(nothing, "password")
    assert_fails(bytes_, "UTF-8")
    assert good.exit_code == 0, good.errors
    assert "correct horse" not in good.output


@pytest.mark.slow
def test_money_funded_on_the_command_line_is_there_for_the_next_request(
    operator: Operator,
) -> None:
    """A server that has just read and moved the balance keeps nothing of it that could go stale."""
    ada, grace = operator.open_account("10"), operator.open_account()
    key = operator.run("app", "create", f"--owner=@{ada}", "--name=Shop", "--json").json["key"]
    assert operator.send(key, f"@{grace}", 10).status_code == 201
    assert operator.send(key, f"@{grace}", 1).status_code == 400

    funded = operator.run("account", "fund", f"{ada}@example.com", "5.5", "--json").json

    assert operator.get("/balance", key).json()["available"] == 5.5
    assert operator.send(key, f"@{grace}", 5.5).status_code == 201
    assert operator.run("account", "show", f"@{grace}", "--json").json["balance"] == 15.5
    assert list(funded) == [
        *("transfer_id", "replayed", "account_id", "username", "amount", "balance")
    ]
    assert funded["amount"] == funded["balance"] == 5.5
    assert funded["replayed"] is False


def test_money_that_has_moved_is_no_failure(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the balance cannot be read afterwards, the command must not invite a second try."""
    ada = operator.open_account()
    lost = AsyncMock(side_effect=DatabaseUnavailable("PostgreSQL cannot be reached."))
    monkeypatch.setattr(AccountService, "get", lost)

    funded = operator.run("account", "fund", f"@{ada}", "5", "--json").json

    assert (funded["amount"], funded["balance"]) == (5, None)


def test_funding_prints_a_table(operator: Operator) -> None:
    """An amount is printed as an amount."""
    ada = operator.open_account()

    rows = operator.run("account", "fund", f"@{ada}", "0.000001", "--note=for a start").rows

    assert rows["amount"] == rows["balance"] == "0.000001"
    assert rows["username"] == ada
    assert rows["replayed"] == "False"
    assert rows["transfer_id"].startswith("tr_")


def test_funding_with_a_key_moves_once(operator: Operator) -> None:
    """The same command again answers the first funding; another amount under the key fails."""
    ada, key = operator.open_account(), unique_name("fund")
    command = ("account", "fund", f"@{ada}", "7", f"--idempotency-key={key}", "--json")

    first, again = operator.run(*command).json, operator.run(*command).json
    conflict = operator.run("account", "fund", f"@{ada}", "8", f"--idempotency-key={key}")

    assert first["replayed"] is False
    assert again == first | {"replayed": True}
    assert_fails(conflict, first["transfer_id"])
    assert operator.run("account", "show", f"@{ada}", "--json").json["balance"] == 7


def test_money_is_redeemed_once_and_never_more_than_there_is(operator: Operator) -> None:
    """The same command again answers the first redemption; too much is refused in one line."""
    ada = operator.open_account("10")
    command = ("account", "redeem", f"@{ada}", "7.5", "--idempotency-key=out", "--note=Bye")

    first, again = operator.run(*command, "--json").json, operator.run(*command, "--json").json
    refused = operator.run("account", "redeem", f"@{ada}", "2.500001")
    rest = operator.run("account", "redeem", f"@{ada}", "2.5").rows

    assert (first["amount"], first["balance"], first["replayed"]) == (7.5, 2.5, False)
    assert again == first | {"replayed": True}
    assert_fails(refused, "The balance is 2.50 and the amount is 2.500001.")
    assert rest["balance"] == "0.00"


def test_a_freeze_holds_for_the_next_request(operator: Operator) -> None:
    """Frozen on the command line, neither side moves money; unfrozen, it does."""
    ada, grace = operator.open_account("10"), operator.open_account()
    key = operator.run("app", "create", f"--owner=@{ada}", "--name=Shop", "--json").json["key"]
    assert operator.send(key, f"@{grace}", 1).status_code == 201

    frozen = operator.run("account", "freeze", f"@{grace}", "--json").json
    refused = operator.send(key, f"@{grace}", 1)
    unfunded = operator.run("account", "fund", f"@{grace}", "1")
    unredeemed = operator.run("account", "redeem", f"@{grace}", "1")
    thawed = operator.run("account", "unfreeze", f"@{grace}").rows
    sent = operator.send(key, f"@{grace}", 1)

    assert list(frozen) == FIELDS
    assert frozen["status"] == "frozen"
    assert refused.json()["code"] == "account_frozen"
    assert_fails(unfunded, "frozen")
    assert_fails(unredeemed, "frozen")
    assert thawed["status"] == "active"
    assert sent.status_code == 201


@pytest.mark.slow
def test_all_accounts_are_listed(operator: Operator) -> None:
    """Each account stands in the list, the system account too, whose balance is what was issued."""
    names = {operator.open_account("1"), operator.open_account("2.5")}

    listed = operator.run("account", "list", "--json").json
    plain = operator.run("account", "list").output.splitlines()

    found = {record["username"]: record for record in listed}
    assert names <= set(found)
    assert [list(record) for record in listed] == [FIELDS[:-2]] * len(listed)
    assert sum(round(record["balance"] * 1_000_000) for record in listed) == 0
    assert found["ousel"]["balance"] < 0
    assert plain[0].split() == FIELDS[:-2]
    assert len(plain) == len(listed) + 1
    for line, record in zip(plain[1:], listed, strict=True):
        assert record["id"] in line
        assert record["account_number"] in line


def test_an_unconfirmed_email_finds_nobody_until_the_operator_vouches_for_it(
    operator: Operator,
) -> None:
    """Of two accounts that wait for one email, one can have it."""
    first, second = unique_name(), unique_name()
    email = f"{first}@example.com"
    for username in (first, second):
        options = (f"--username={username}", f"--email={email}", "--name=Ada", "--unproven")
        created = operator.run("account", "create", *options, "--json").json
        assert not created["email_verified"]
    assert_fails(operator.run("account", "show", email), "No account has this identifier")

    vouched = operator.run("account", "vouch", f"@{first}", "--json").json
    again = operator.run("account", "vouch", f"@{first}", "--json").json
    taken = operator.run("account", "vouch", f"@{second}")

    assert vouched["email_verified"]
    assert again == vouched
    assert operator.run("account", "show", email, "--json").json == vouched
    assert_fails(taken, f"{email} is in use")
