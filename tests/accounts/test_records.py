"""GET /me, /balance and /accounts/:identifier: the records, and the names that find them."""

import re

import pytest

from ousel.kernel.account_numbers import account_number
from tests.support.accounts import unique_name
from tests.support.problems import assert_problem
from tests.support.world import World

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
PUBLIC = ["object", "id", "username", "account_number", "display_name", "status", "created_at"]


async def test_me_is_the_key_owners_own_account_and_the_app(world: World) -> None:
    """The owner sees every field, the email and the app that calls."""
    async with world.partner() as caller:
        answer = await caller.client.get("/me")

    own = caller.account
    record = answer.json()
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert TIME.fullmatch(record.pop("created_at"))
    assert record == {
        "object": "account",
        "id": own.id,
        "username": own.username,
        "account_number": own.account_number,
        "email": f"{own.username}@example.com",
        "email_verified": True,
        "display_name": own.display_name,
        "status": "active",
        "app": {"client_id": caller.app.id, "name": caller.app.name},
    }


async def test_balance_is_what_the_owner_can_spend(world: World, subtests: pytest.Subtests) -> None:
    """An amount in an answer has two decimals, and others only where they are needed."""
    for funds, shown in (
        (None, "0.00"),
        ("25", "25.00"),
        ("0.000001", "0.000001"),
        ("1234.5678", "1234.5678"),
        ("0.1", "0.10"),
        ("999999999.999999", "999999999.999999"),
    ):
        with subtests.test(funds=funds):
            async with world.partner(funds) as caller:
                answer = await caller.client.get("/balance")

            assert answer.status_code == 200
            assert re.fullmatch(
                rf'{{"object":"balance","account_id":"{caller.account.id}","currency":"OUSD",'
                rf'"available":{re.escape(shown)},"updated_at":"{TIME.pattern}"}}',
                answer.text,
            ), answer.text


async def test_an_account_is_found_by_each_identifier(
    world: World, subtests: pytest.Subtests
) -> None:
    """@username, number and email, percent-encoded or plain, in either case: one public record."""
    ada = await world.person("5")
    name, number = ada.username, ada.account_number
    paths = (
        *(f"@{name}", f"%40{name}", f"@{name.upper()}", f"%40%{ord(name[0]):x}{name[1:]}"),
        *(f"{name}@example.com", f"{name}%40example.com", f"{name.upper()}@EXAMPLE.com"),
        *(number, number.lower(), f"%4F{number[1:]}"),
    )

    async with world.partner() as caller:
        for path in paths:
            with subtests.test(path=path):
                answer = await caller.client.get(f"/accounts/{path}")
                record = answer.json()

                assert answer.status_code == 200, answer.text
                assert list(record) == PUBLIC
                assert record["id"] == ada.id
                assert record["username"] == name
                assert record["account_number"] == number
                assert record["status"] == "active"
                assert TIME.fullmatch(record["created_at"])


async def test_a_look_up_shows_the_owner_no_more_than_others(world: World) -> None:
    """Looked up by identifier, even one's own account shows no email and no app."""
    async with world.partner() as caller:
        answer = await caller.client.get(f"/accounts/{caller.account.username}@example.com")

    assert list(answer.json()) == PUBLIC


async def test_a_frozen_account_is_found_as_frozen(world: World) -> None:
    """The status is that of this moment."""
    ada = await world.person()

    async with world.partner() as caller:
        await world.set_status(ada, "frozen")
        await world.set_status(caller.account, "frozen")
        looked_up = await caller.client.get(f"/accounts/@{ada.username}")
        own = await caller.client.get("/me")

    assert looked_up.json()["status"] == "frozen"
    assert own.json()["status"] == "frozen"


async def test_an_account_that_does_not_exist_is_a_404(
    world: World, subtests: pytest.Subtests
) -> None:
    """An unknown name, an id, something that is no name at all, the system account: 404."""
    ada = await world.person()
    paths = (
        *(
            f"@{unique_name()}",
            "nobody@example.com",
            ada.username,
            ada.id,
            "@",
            "%40",
            "@ab",
            "@a%20b",
        ),
        *("", "%00", f"@{ada.username}%00", f"@{ada.username}%0A", "%2F", "..", ".", "%zz", "%"),
        *(account_number(0), account_number(1), "OU", "@ousel", f"@{'a' * 31}", "%F0%9F%92%B6"),
        *("null", "a@b", "@@", "%5C", "'%20OR%201=1--", f"{'a' * 250}@b.example"),
    )

    async with world.partner() as caller:
        for path in paths:
            with subtests.test(path=path):
                # As it is, since a client would resolve dots and encode what is not encoded.
                answer = await world.get(f"/v1/accounts/{path}", caller.key)

                assert_problem(answer, 404, "account_not_found", "identifier")


async def test_a_mistyped_account_number_is_reported_as_such(
    world: World, subtests: pytest.Subtests
) -> None:
    """Every digit that is changed in a number is noticed by its check digits."""
    ada = await world.person()
    number = ada.account_number

    async with world.partner() as caller:
        for place in range(2, len(number)):
            other = str((int(number[place]) + 1) % 10)
            mistyped = number[:place] + other + number[place + 1 :]
            with subtests.test(mistyped=mistyped):
                answer = await caller.client.get(f"/accounts/{mistyped}")

                problem = assert_problem(answer, 404, "account_not_found", "identifier")
                assert "check digits are wrong" in problem["detail"]
