"""A partner with money and a key, people to pay, and the proof of their books in the end."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.support.accounts import open_database, partner, person
from tests.support.raw_sql import RawSql

if TYPE_CHECKING:
    from tests.faults.load import Load

FUNDS = "100000000"
PEOPLE = ("ada", "grace", "edsger", "barbara", "alan")


class Town(msgspec.Struct, frozen=True):
    """Who lives on a database."""

    url: str
    account_id: str
    key: str
    people: tuple[str, ...] = PEOPLE


async def founded(url: str) -> Town:
    """Open the accounts on a fresh database."""
    async with open_database(url) as database:
        account, _, key = await partner(database, "harbour", FUNDS)
        for name in PEOPLE:
            await person(database, name)
        return Town(url, account.id, key)


async def moved(town: Town) -> dict[str, tuple[str, int]]:
    """Return the id and the amount of each transfer in the books, by its key."""
    async with RawSql(town.url) as raw_sql:
        rows = await raw_sql.run(
            "SELECT idempotency_key, transfer_id, -amount FROM entries"
            " WHERE account_id = ? AND kind = 'transfer'",
            town.account_id,
        )
    assert len({row[0] for row in rows}) == len(rows), "a key moved money twice"
    return {key: (transfer_id, amount) for key, transfer_id, amount in rows}


async def settled_exactly_once(load: "Load") -> None:
    """See that the books hold what was acknowledged, each once and nothing else, and balance."""
    assert not load.wrong, load.wrong[:3]
    assert not load.unanswered, load.unanswered
    expected = {
        load.key(number): (transfer_id, load.amount(number))
        for number, transfer_id in load.acknowledged.items()
    }
    assert await moved(load.town) == expected
    verified(load.town.url)


def verified(url: str) -> None:
    """Let `ousel verify` prove the books, as an operator does."""
    command = [str(Path(sys.executable).parent / "ousel"), "verify", "--database", url]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
