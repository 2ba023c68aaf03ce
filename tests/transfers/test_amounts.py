"""Amounts over HTTP: exact to the last digit, or refused."""

import pytest

from ousel.kernel.clock import system_clock
from ousel.kernel.money import AMOUNT_MICROS_MAX
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import Account
from tests.support.problems import assert_problem
from tests.support.world import World

EXACT = {
    "0.1": (100_000, "0.10"),
    "1e1": (10_000_000, "10.00"),
    "12.5e-1": (1_250_000, "1.25"),
    "0.123456": (123_456, "0.123456"),
    "0.000001": (1, "0.000001"),
    "1E-6": (1, "0.000001"),
    "25": (25_000_000, "25.00"),
    "1234.5678": (1_234_567_800, "1234.5678"),
    "1.10": (1_100_000, "1.10"),
    "0.1000000000": (100_000, "0.10"),
    "999999999.999999": (999_999_999_999_999, "999999999.999999"),
}
REFUSED = (
    *("0.0000001", "1e-7", "0.1234567", "1000000000", "999999999.9999991", "1e9", "1e400"),
    *("0", "0.0", "-0", "0e5", "-1", "-0.000001", "1" * 400, f"0.{'1' * 400}", "1e-400"),
    *('"5"', '"1e1"', "true", "false", "null", "NaN", "Infinity", "-Infinity", "[1]", "{}"),
)
NOT_JSON = ("01", ".5", "5.", "+1", "0x10", "1_000", "1,5", "5 5", "--1", "1e", "nan", "'5'")


async def test_an_amount_is_taken_exactly(world: World, subtests: pytest.Subtests) -> None:
    """An amount moves as it is written, and the answer's text has it with 2 to 6 decimals."""
    recipient = await world.person()
    received = 0

    async with world.partner("999999999.999999") as sender:
        for literal, (micros, shown) in EXACT.items():
            await _top_up(world, sender.account)
            with subtests.test(literal=literal):
                answer = await sender.send(f'{{"to":"@{recipient.username}","amount":{literal}}}')

                received += micros
                assert answer.status_code == 201, answer.text
                assert f'"amount":{shown},' in answer.text
                assert await world.balance(recipient) == received


async def test_what_is_no_amount_is_refused_and_moves_nothing(
    world: World, subtests: pytest.Subtests
) -> None:
    """A string, a boolean, NaN, zero, a negative, a seventh decimal, too much: 400 at `amount`."""
    recipient = await world.person()

    async with world.partner("100") as sender:
        for literal in REFUSED:
            with subtests.test(literal=literal[:20]):
                answer = await sender.send(f'{{"to":"@{recipient.username}","amount":{literal}}}')

                assert_problem(answer, 400, "invalid_amount", "amount")

    assert await world.balance(recipient) == 0
    assert await world.balance(sender.account) == 100_000_000


async def test_what_json_cannot_write_is_no_json(world: World, subtests: pytest.Subtests) -> None:
    """A number that JSON does not know spoils the whole body."""
    recipient = await world.person()

    async with world.partner("100") as sender:
        for literal in NOT_JSON:
            with subtests.test(literal=literal):
                answer = await sender.send(f'{{"to":"@{recipient.username}","amount":{literal}}}')

                assert_problem(answer, 400, "malformed_json")

    assert await world.balance(recipient) == 0


async def _top_up(world: World, account: Account) -> None:
    """Bring the balance back to the largest amount that one transfer can move."""
    missing = AMOUNT_MICROS_MAX - await world.balance(account)
    if missing:
        await fund_account(world.database, system_clock, account, missing)
