"""POST /transfers: what it refuses, and that nothing moves then."""

from typing import Any

import pytest

from ousel.kernel.account_numbers import account_number
from tests.support.accounts import unique_name
from tests.support.problems import assert_problem
from tests.support.world import World

BAD_NOTES = ("\x00", "a\x00b", "\x08", "\x0b", "\x1b[31m", "\r", "\x7f", "x" * 501, "💶" * 501)
GOOD_NOTES = ("", " ", "tab\tand\nline", "x" * 500, "💶" * 500, "\u202e\u200f", "\ufffe\uffff", "é")


async def test_a_transfer_debits_the_key_owner_and_credits_the_recipient(world: World) -> None:
    """A transfer answers 201 and moves the amount from one balance to the other."""
    ada = await world.person("1")

    async with world.partner("100") as sender:
        answer = await sender.send(f'{{"to":"@{ada.username}","amount":25.5,"note":"Hello"}}')

    assert answer.status_code == 201, answer.text
    assert await world.balance(sender.account) == 74_500_000
    assert await world.balance(ada) == 26_500_000


async def test_more_than_the_balance_is_refused(world: World) -> None:
    """One millionth too much: 400, with both figures in the sentence."""
    ada = await world.person()

    async with world.partner("10") as sender:
        refused = await sender.send(f'{{"to":"@{ada.username}","amount":10.000001}}')
        whole = await sender.send(f'{{"to":"@{ada.username}","amount":10}}')

    problem = assert_problem(refused, 400, "insufficient_balance", "amount")
    assert problem["detail"] == "The balance is 10.00 and the amount is 10.000001."
    assert whole.status_code == 201
    assert await world.balance(ada) == 10_000_000


async def test_nobody_sends_to_themselves(world: World) -> None:
    """A transfer to oneself is refused with 400, by whichever identifier."""
    async with world.partner("10") as sender:
        own = sender.account
        for name in (f"@{own.username}", f"{own.username}@example.com", own.account_number):
            answer = await sender.send(f'{{"to":"{name}","amount":1}}')

            assert_problem(answer, 400, "same_account", "to")


async def test_a_frozen_account_neither_sends_nor_receives(world: World) -> None:
    """A frozen account neither sends nor receives, from the next request on."""
    ada = await world.person()

    async with world.partner("10") as sender:
        body = f'{{"to":"@{ada.username}","amount":1}}'
        await world.set_status(ada, "frozen")
        to_frozen = await sender.send(body)
        await world.set_status(ada, "active")
        await world.set_status(sender.account, "frozen")
        from_frozen = await sender.send(body)
        await world.set_status(sender.account, "active")
        thawed = await sender.send(body)

    assert_problem(to_frozen, 400, "account_frozen", "to")
    assert_problem(from_frozen, 400, "account_frozen")
    assert thawed.status_code == 201
    assert await world.balance(ada) == 1_000_000


async def test_a_recipient_that_does_not_exist_is_a_404(
    world: World, subtests: pytest.Subtests
) -> None:
    """An unknown name, something that is no name at all, the system account: 404 at `to`."""
    ada = await world.person()
    names = (
        *(
            f"@{unique_name()}",
            "nobody@example.com",
            ada.username,
            ada.id,
            "@",
            "@@",
            "a@b",
            "@a b",
        ),
        *(f"@{ada.username}\x00", f"{ada.username}@example.com\x00", f" @{ada.username}", "💶"),
        *("x" * 255, "@ousel", account_number(0), account_number(1), "İ@example.com"),
        *(f"@{ada.username}\n", f"{ada.account_number} ", ada.account_number[2:], "null"),
    )

    async with world.partner("10") as sender:
        for name in names:
            with subtests.test(to=name):
                answer = await sender.client.post("/transfers", json={"to": name, "amount": 1})

                assert_problem(answer, 404, "account_not_found", "to")

    assert await world.balance(ada) == 0


async def test_a_mistyped_account_number_is_reported_as_such(world: World) -> None:
    """Two digits swapped: a 404 that says the check digits are wrong."""
    async with world.partner("10") as sender:
        answer = await sender.send('{"to":"OU001234567890","amount":1}')

    problem = assert_problem(answer, 404, "account_not_found", "to")
    assert "check digits are wrong" in problem["detail"]


async def test_a_note_is_free_text_of_at_most_500_characters(
    world: World, subtests: pytest.Subtests
) -> None:
    """A note comes back as it was sent, tabs and line feeds too; control characters are refused."""
    ada = await world.person()
    plain = {"to": f"@{ada.username}", "amount": 0.01}

    async with world.partner("10") as sender:
        for note in GOOD_NOTES:
            with subtests.test(good=note[:20]):
                answer = await sender.client.post("/transfers", json={**plain, "note": note})

                assert answer.status_code == 201, answer.text
                assert answer.json()["note"] == note
        for note in BAD_NOTES:
            with subtests.test(bad=note[:20]):
                answer = await sender.client.post("/transfers", json={**plain, "note": note})

                assert_problem(answer, 400, "invalid_field", "note")

    assert await world.balance(ada) == len(GOOD_NOTES) * 10_000


async def test_each_wrong_field_is_named(world: World, subtests: pytest.Subtests) -> None:
    """A missing, misspelt or wrongly typed field: 400, and `param` names it and no other."""
    ada = await world.person()
    good: dict[str, Any] = {"to": f"@{ada.username}", "amount": 1}
    cases: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({"amount": 1}, "missing_field", "to"),
        ({"to": "@ada"}, "missing_field", "amount"),
        ({}, "missing_field", "to"),
        ({**good, "idempotency_kee": "k"}, "unknown_field", "idempotency_kee"),
        ({**good, "Idempotency-Key": "k"}, "unknown_field", "Idempotency-Key"),
        ({**good, "currency": "OUSD"}, "unknown_field", "currency"),
        ({**good, "": 1}, "unknown_field", ""),
        ({**good, "\x00": 1}, "unknown_field", "\x00"),
        ({**good, "z" * 5000: 1}, "unknown_field", "z" * 100),
        ({**good, "to": None}, "invalid_field", "to"),
        ({**good, "to": 5}, "invalid_field", "to"),
        ({**good, "to": ["@ada"]}, "invalid_field", "to"),
        ({**good, "to": ""}, "invalid_field", "to"),
        ({**good, "to": "x" * 256}, "invalid_field", "to"),
        ({**good, "note": 5}, "invalid_field", "note"),
        ({**good, "note": ["a"]}, "invalid_field", "note"),
        ({**good, "note": {"a": "b"}}, "invalid_field", "note"),
        ({**good, "note": False}, "invalid_field", "note"),
    )

    async with world.partner("10") as sender:
        for body, code, param in cases:
            with subtests.test(param=param[:20], code=code):
                answer = await sender.client.post("/transfers", json=body)

                assert_problem(answer, 400, code, param)

    assert await world.balance(ada) == 0
