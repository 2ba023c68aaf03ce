"""Verification of a large ledger by two processes, with small pages instead of many entries."""

import asyncio
import io
import subprocess
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ousel.cli import verification
from ousel.cli.verification import verify_everything
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger import journal, verify_process
from ousel.ledger.queue import PostingQueue
from ousel.ledger.verify import VerificationFailed, verify_ledger
from ousel.ledger.verify_process import (
    ReceivedLedger,
    needs_two_processes,
    send_ledger,
    verify_in_two_processes,
)
from tests.ledger.examples import posting
from tests.ledger.tampering import People, forge_history, verification_error
from tests.support.accounts import person, verify
from tests.support.raw_sql import RawSql

if TYPE_CHECKING:
    from ousel.ledger.rules import Entry


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send two accounts or five entries at a time, and treat every ledger as a large one."""
    monkeypatch.setattr("ousel.ledger.verify.PAGE_ENTRIES", 5)
    monkeypatch.setattr(verify_process, "PAGE_ACCOUNTS", 2)
    monkeypatch.setattr(verify_process, "ENTRIES_MIN", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


async def test_two_processes_find_what_one_finds(database: Database, people: People) -> None:
    """The totals are equal; the observer sees each entry once, and progress reaches the end."""
    for name in ("aaa", "bbb", "ccc", "zzz"):  # some of them come after the last entry
        await person(database, name)
    seen: list[Entry] = []
    counts: list[int] = []

    totals = await database.snapshot(
        lambda transaction: verify_in_two_processes(transaction, counts.append, seen.extend)
    )

    assert totals == await verify(database)
    assert totals.accounts == 7
    assert len({(entry.account_id, entry.sequence) for entry in seen}) == len(seen) == 24
    assert counts == [5, 10, 15, 20, 24]
    assert people.ada.id in {entry.account_id for entry in seen}


@pytest.mark.slow
async def test_two_processes_verify_beside_writers(database: Database, people: People) -> None:
    """While others write, both processes see one snapshot."""
    queue = PostingQueue(database, system_clock, queue_limit=1_000)
    written, enough = 0, False

    async def write() -> None:
        nonlocal written
        while not enough:
            await queue.post(posting(people.ada.id, "@bob", 1))
            written += 1

    writing = asyncio.create_task(write())
    for _ in range(3):
        totals = await database.snapshot(
            lambda transaction: verify_in_two_processes(transaction, ignore, ignore)
        )
        assert 12 <= totals.transfers <= 12 + written + 1  # one may be committed, but not counted
    enough = True
    await writing

    assert (await verify(database)).transfers == 12 + written


def ignore(_: object) -> None:
    """Observe nothing."""


async def sent_ledger(database: Database) -> bytes:
    """Return what the second process gets."""
    stream = io.BytesIO()
    await database.snapshot(lambda transaction: send_ledger(transaction, stream, ignore, ignore))
    return stream.getvalue()


@pytest.mark.usefixtures("people")
async def test_a_received_ledger_is_verified_once(database: Database) -> None:
    """It has the totals of the database; it cannot be read again to look for an error."""
    received = ReceivedLedger(io.BytesIO(await sent_ledger(database)))

    assert await verify_ledger(received) == await verify(database)
    with pytest.raises(VerificationFailed, match=r"^the ledger may have an error$"):
        await anext(received.entries())


@pytest.mark.usefixtures("people")
async def test_a_ledger_that_breaks_off_is_not_verified(database: Database) -> None:
    """Wherever the stream ends too early, there are no totals."""
    whole = await sent_ledger(database)

    for length in (*range(0, len(whole), 100), len(whole) - 1):
        with pytest.raises((AssertionError, VerificationFailed, msgspec.DecodeError)):
            await verify_ledger(ReceivedLedger(io.BytesIO(whole[:length])))


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("cores", "entries_min", "expected"),
    [(2, 24, True), (2, 25, False), (1, 24, False), (None, 24, False)],
)
async def test_a_large_ledger_on_several_cores_needs_two_processes(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    cores: int | None,
    entries_min: int,
    expected: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A smaller ledger, or one on a single core, is verified by one process."""
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr(verify_process, "ENTRIES_MIN", entries_min)

    assert await database.snapshot(needs_two_processes) is expected


class Interrupted(Exception):
    """The operator interrupts the command."""


@pytest.mark.usefixtures("people")
async def test_an_interruption_is_not_taken_for_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the second process too. This must not start the verification again."""
    processes: list[subprocess.Popen[bytes]] = []

    class RecordedProcess(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            processes.append(self)

    def interrupt(_: object) -> None:
        processes[0].kill()
        processes[0].wait()
        raise Interrupted

    monkeypatch.setattr(subprocess, "Popen", RecordedProcess)
    with pytest.raises(Interrupted):
        await database.snapshot(
            lambda transaction: verify_in_two_processes(transaction, ignore, interrupt)
        )


@pytest.mark.usefixtures("people")
async def test_a_read_that_times_out_is_not_taken_for_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger must not be verified again in the transaction, which has failed."""

    async def time_out(*_: object) -> None:
        raise TimeoutError

    async def verify_once(transaction: Transaction) -> None:
        with pytest.raises(TimeoutError):
            await verify_in_two_processes(transaction, ignore, ignore)

    monkeypatch.setattr(journal, "entries_after", time_out)
    await database.snapshot(verify_once)


async def test_an_empty_ledger_is_verified(database: Database) -> None:
    """There is one account, the system's, and no entry."""
    totals, _ = await database.snapshot(verify_everything)

    assert (totals.entries, totals.accounts) == (0, 1)


async def write_last_movement_twice(raw_sql: RawSql, people: People) -> None:
    """Write the last movement again under its id, so that its entries still pair."""
    for each in (people.ada, people.bob):
        await forge_history(raw_sql, each.id, lambda before: [*before, before[-1]])


TAMPERING: dict[str, Callable[[RawSql, People], Awaitable[Any]]] = {
    "an entry is changed": lambda raw_sql, people: raw_sql.run(
        "UPDATE entries SET amount = amount + 1 WHERE account_id = ? AND sequence = 3",
        people.ada.id,
    ),
    "an entry is removed": lambda raw_sql, people: raw_sql.run(
        "DELETE FROM entries WHERE account_id = ? AND sequence = 11", people.bob.id
    ),
    "a balance is changed": lambda raw_sql, people: raw_sql.run(
        "UPDATE accounts SET balance = balance + 1 WHERE id = ?", people.bob.id
    ),
    "the last account is removed": lambda raw_sql, _: raw_sql.run(
        "DELETE FROM accounts WHERE id = (SELECT MAX(id) FROM accounts)"
    ),
    "a movement is written twice": write_last_movement_twice,
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING)
async def test_one_process_names_what_two_have_found(
    database: Database,
    people: People,
    raw_sql: RawSql,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tamper: Callable[[RawSql, People], Awaitable[Any]],
) -> None:
    """Two processes fail, and print nothing; then the error is the one that one process names."""
    await tamper(raw_sql, people)
    attempts: list[str] = []

    async def attempt(*arguments: Any) -> Any:
        try:
            return await verify_in_two_processes(*arguments)
        except VerificationFailed as error:
            attempts.append(str(error))
            raise

    monkeypatch.setattr(verification, "verify_in_two_processes", attempt)
    with pytest.raises(VerificationFailed) as found:
        await database.snapshot(verify_everything)

    assert attempts == ["the ledger has an error"]
    assert str(found.value) == await verification_error(database)
    assert capfd.readouterr().err == ""
