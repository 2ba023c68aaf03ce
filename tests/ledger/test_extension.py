"""A ledger that extends an older export is told from one whose past was changed."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger.export import ExportedLedger, export_ledger
from ousel.ledger.extension import ExtensionCheck, last_entries
from ousel.ledger.funding import redeem_money
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Entry
from ousel.ledger.verify import DatabaseLedger, VerificationFailed, verify_ledger
from tests.ledger.examples import posting
from tests.ledger.tampering import People, forge_history
from tests.support.accounts import person
from tests.support.raw_sql import RawSql

VERIFIER = Path(__file__).parents[2] / "scripts" / "verify-export"


@pytest.fixture
async def older(database: Database, people: People, tmp_path: Path) -> Path:
    """An export, after which the ledger goes on."""
    await person(database, "nobody")
    path = await _export(database, tmp_path / "older")
    await PostingQueue(database, system_clock, queue_limit=1).post(
        posting(people.ada.id, "@bob", 5, note='"\u0001\u001f\u007f / \u2028 \U0001f389')
    )
    await person(database, "somebody")
    return path


async def test_a_ledger_that_went_on_extends_its_past(
    database: Database, people: People, older: Path, tmp_path: Path
) -> None:
    """New entries, new accounts and a new kind of movement change nothing of what was before."""
    await redeem_money(database, system_clock, people.bob, 5)
    newer = await _export(database, tmp_path / "newer")

    assert await _error(newer, older) is None
    assert _verifier(newer, older).startswith("correct: 5 accounts, 14 transfers, 1999995 ")


async def test_a_forged_past_is_found(
    database: Database, raw_sql: RawSql, older: Path, tmp_path: Path
) -> None:
    """A note that was changed long ago is found, although every hash was adapted to it."""

    def reworded(before: list[Entry]) -> list[Entry]:
        return [msgspec.structs.replace(each, note=f"{each.note}!") for each in before]

    for each in await raw_sql.run("SELECT id FROM accounts"):
        await forge_history(raw_sql, each[0], reworded)
    newer = await _export(database, tmp_path / "newer")

    error = await _error(newer, older)

    assert error is not None
    assert error.endswith("has another history than the older export: their entries up to 2 differ")
    assert _verifier(newer).startswith("correct: ")
    assert "was changed or cut off" in _verifier(newer, older)


async def test_a_forged_kind_is_found_without_an_older_export(
    database: Database, raw_sql: RawSql, older: Path, tmp_path: Path
) -> None:
    """Money that seems to enter circulation by a transfer is wrong, whatever the hashes say."""

    def renamed(before: list[Entry]) -> list[Entry]:
        return [msgspec.structs.replace(each, kind="transfer") for each in before]

    for each in await raw_sql.run("SELECT id FROM accounts"):
        await forge_history(raw_sql, each[0], renamed)
    newer = await _export(database, tmp_path / "newer")

    assert str(await _error(newer, older)).endswith("which does not match its accounts")
    assert "the kind does not match the accounts" in _verifier(newer)


async def test_a_removed_end_is_found(
    database: Database, people: People, raw_sql: RawSql, older: Path, tmp_path: Path
) -> None:
    """The last movements were removed from both accounts, and all totals adapted."""
    for each in (people.ada, people.bob):
        await forge_history(raw_sql, each.id, lambda before: before[:-2])
    newer = await _export(database, tmp_path / "newer")

    assert await _error(newer, older) == (
        f"entry 11 of account {people.ada.id} is in the older export, but not here"
    )
    assert _verifier(newer).startswith("correct: ")
    assert "was changed or cut off" in _verifier(newer, older)


async def test_a_removed_account_is_found(
    database: Database, raw_sql: RawSql, older: Path, tmp_path: Path
) -> None:
    """Even if it never had an entry."""
    [[removed]] = await raw_sql.run("SELECT id FROM accounts WHERE username = 'nobody'")
    await raw_sql.run("DELETE FROM accounts WHERE username = 'nobody'")

    assert await _error(await _export(database, tmp_path / "n"), older) == (
        f"account {removed} is in the older export, but not here"
    )


async def _export(database: Database, path: Path) -> Path:
    async def write(transaction: Transaction) -> None:
        with path.open("wb") as file:
            await export_ledger(DatabaseLedger(transaction), file.write, "jsonl")

    await database.snapshot(write)
    return path


async def _error(newer: Path, older: Path) -> str | None:
    check = ExtensionCheck(await last_entries(ExportedLedger(older)))
    try:
        await verify_ledger(ExportedLedger(newer), observer=check.add_entries)
        await check.finish(ExportedLedger(newer))
    except VerificationFailed as error:
        return str(error)
    return None


def _verifier(*paths: Path) -> str:
    """Return what the verifier prints that shares no code with Ousel."""
    done = subprocess.run(
        [sys.executable, "-I", str(VERIFIER), *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr
