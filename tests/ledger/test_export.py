"""The journal as a file: complete, written in constant memory, verified without the database."""

import csv
import io
import json
import random
import tracemalloc
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.ledger.export import (
    COLUMNS,
    LINE_BYTES_MAX,
    ExportedLedger,
    ExportTotals,
    Format,
    export_ledger,
)
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID, Account, Entry, entry_hash
from ousel.ledger.verify import DatabaseLedger, VerificationFailed, verify_ledger
from tests.ledger.examples import posting
from tests.ledger.tampering import (
    People,
    forge_history,
    move_entries,
    read_entries,
    verification_error,
)
from tests.support.accounts import verify
from tests.support.raw_sql import RawSql

FORMATS: tuple[Format, ...] = ("jsonl", "csv")
ODD_NOTES = ("", '"', ",", '","', "two\nlines\n", "\ttab", "null", "0012", "=1+1", "déjà\u2028vu")

Damage = Callable[[RawSql, People], Any]


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    """Each format in turn."""
    chosen: Format = request.param
    return chosen


async def write_export(database: Database, path: Path, form: Format) -> ExportTotals:
    """Export a database to a file."""

    async def work(transaction: Transaction) -> ExportTotals:
        with path.open("wb") as file:
            return await export_ledger(DatabaseLedger(transaction), file.write, form)

    return await database.snapshot(work)


async def error_in_export(path: Path) -> str:
    """Return the error that verification finds in an export."""
    with pytest.raises(VerificationFailed) as found:
        await verify_ledger(ExportedLedger(path))
    return str(found.value)


async def test_an_export_has_the_same_totals_as_the_database(
    database: Database, people: People, tmp_path: Path, form: Format
) -> None:
    """The file has the same ledger as the database, whatever characters a note has."""
    queue = PostingQueue(database, system_clock, queue_limit=100)
    for number, note in enumerate(ODD_NOTES):
        next_posting = posting(people.ada.id, "@bob", 1, note=note, key=f"k,{number}")
        await queue.post(next_posting)

    written = await write_export(database, tmp_path / "journal", form)

    figures = await verify_ledger(ExportedLedger(tmp_path / "journal"))
    assert figures == await verify(database)
    assert (written.entries, written.accounts) == (figures.entries, figures.accounts)
    assert figures.entries == 24 + 2 * len(ODD_NOTES)


async def test_an_empty_ledger_can_be_exported(
    database: Database, tmp_path: Path, form: Format
) -> None:
    """The file has the system account and the last line."""
    await write_export(database, tmp_path / "journal", form)

    assert (await verify_ledger(ExportedLedger(tmp_path / "journal"))).accounts == 1


async def test_json_lines_have_every_field_of_every_entry(
    database: Database, people: People, raw_sql: RawSql, tmp_path: Path
) -> None:
    """Each line is one object, and the names of fields contain units."""
    await write_export(database, tmp_path / "journal", "jsonl")

    lines = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    of_bob = [line for line in lines if line.get("account_id") == people.bob.id]

    assert [line["object"] for line in lines] == ["account"] * 3 + ["entry"] * 24 + ["end"]
    assert " ".join(of_bob[0]) == "object account_id sequence balance_after_micros hash"
    assert " ".join(of_bob[1]) == (
        "object account_id sequence transfer_id kind amount_micros balance_after_micros"
        " counterparty_id note charge_id idempotency_key created_at_micros hash"
    )
    assert tuple(of_bob[1]) == COLUMNS
    assert [tuple(line.values())[1:] for line in of_bob[1:]] == [
        msgspec.structs.astuple(entry) for entry in await read_entries(raw_sql, people.bob.id)
    ]


async def test_csv_is_one_table_that_other_programs_can_read(
    database: Database, people: People, raw_sql: RawSql, tmp_path: Path
) -> None:
    """A header, then the same number of cells in each row; only texts are quoted."""
    await write_export(database, tmp_path / "journal", "csv")

    text = (tmp_path / "journal").read_text()
    rows = list(csv.reader(io.StringIO(text)))
    of_bob = [row for row in rows if row[:2] == ["entry", people.bob.id]]

    assert tuple(rows[0]) == COLUMNS
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert [row[1:] for row in of_bob] == [
        ["" if value is None else str(value) for value in msgspec.structs.astuple(entry)]
        for entry in await read_entries(raw_sql, people.bob.id)
    ]


async def _changed(column: str, value: object, raw_sql: RawSql, people: People) -> None:
    await raw_sql.run(
        f"UPDATE entries SET {column} = ? WHERE account_id = ? AND sequence = 6",
        value,
        people.bob.id,
    )


async def _deleted(sequence: int, raw_sql: RawSql, people: People) -> None:
    await raw_sql.run(
        "DELETE FROM entries WHERE account_id = ? AND sequence = ?", people.ada.id, sequence
    )


async def _account_changed(column: str, value: object, raw_sql: RawSql, people: People) -> None:
    await raw_sql.run(f"UPDATE accounts SET {column} = ? WHERE id = ?", value, people.bob.id)


async def _moved_to_nobody(raw_sql: RawSql, people: People) -> None:
    await move_entries(raw_sql, people.bob.id, "acct_zz")
    await raw_sql.run("DELETE FROM accounts WHERE id = ?", people.bob.id)


async def _forged(change: Callable[[list[Entry]], list[Entry]], raw_sql: RawSql, p: People) -> None:
    await forge_history(raw_sql, p.bob.id, change)


def _one_more(before: list[Entry]) -> list[Entry]:
    return [*before, msgspec.structs.replace(before[0], transfer_id="tr_extra", created_at=2**60)]


async def _sum_wrong(raw_sql: RawSql, people: People) -> None:
    last = (await read_entries(raw_sql, people.bob.id))[-2:]
    changed = msgspec.structs.replace(last[1], balance_after=last[1].balance_after + 1)
    await raw_sql.run(
        "UPDATE entries SET balance_after = ?, hash = ? WHERE account_id = ? AND sequence = 11",
        changed.balance_after,
        entry_hash(last[0].hash, changed),
        people.bob.id,
    )


DAMAGES: dict[str, Damage] = {
    "an amount": partial(_changed, "amount", 5),
    "a kind": partial(_changed, "kind", "charge_payment"),
    "a note": partial(_changed, "note", 'changed, "quoted"'),
    "a hash": partial(_changed, "hash", "0" * 64),
    "a time": partial(_changed, "created_at", 5),
    "an entry gone": partial(_deleted, 4),
    "the last entry gone": partial(_deleted, 11),
    "a balance": partial(_account_changed, "balance", 7),
    "a count": partial(_account_changed, "sequence", 9),
    "a head": partial(_account_changed, "head_hash", FIRST_HASH),
    "no account": _moved_to_nobody,
    "a side gone": partial(_forged, lambda before: [*before[:5], *before[6:]]),
    "a side more": partial(_forged, _one_more),
    "overdrawn": partial(_forged, lambda before: [*before[1:], before[0]]),
    "back in time": partial(_forged, lambda before: [*before[:5], before[6], before[5]]),
    "a sum": _sum_wrong,
}


@pytest.mark.one_engine
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_an_export_and_the_database_have_the_same_error(
    database: Database, people: People, raw_sql: RawSql, tmp_path: Path, damage: Damage
) -> None:
    """An export of a damaged ledger names the same entry and account as the database does."""
    await damage(raw_sql, people)
    error_in_database = await verification_error(database)

    for form in FORMATS:
        await write_export(database, tmp_path / form, form)
        assert await error_in_export(tmp_path / form) == error_in_database


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.one_engine
async def test_a_truncated_file_is_found(
    database: Database, people: People, tmp_path: Path, form: Format
) -> None:
    """The error names the line after which, or in which, the file breaks off."""
    assert people.ada.id != people.bob.id
    path = tmp_path / "journal"
    await write_export(database, path, form)
    whole = _lines(path)

    path.write_bytes(b"".join(whole[:-1]))
    assert await error_in_export(path) == f"the export breaks off after line {len(whole) - 1}"
    path.write_bytes(b"".join(whole)[:-1])
    assert "too long, or breaks off" in await error_in_export(path)
    path.write_bytes(b"")
    assert await error_in_export(path) == "the export breaks off after line 0"


@pytest.mark.slow
@pytest.mark.one_engine
async def test_missing_repeated_or_moved_lines_are_found(
    database: Database, people: People, tmp_path: Path, form: Format
) -> None:
    """Verification fails if any one line is missing, repeated or moved."""
    assert people.ada.id != people.bob.id
    path = tmp_path / "journal"
    await write_export(database, path, form)
    whole = _lines(path)
    for number in range(form == "csv", len(whole)):
        rest = whole[:number] + whole[number + 1 :]
        path.write_bytes(b"".join(rest))
        await error_in_export(path)
        path.write_bytes(b"".join([*rest[:number], whole[number], *whole[number:]]))
        await error_in_export(path)
        place = (number + 5) % len(rest)
        path.write_bytes(b"".join([*rest[:place], whole[number], *rest[place:]]))
        await error_in_export(path)


@pytest.mark.slow
@pytest.mark.one_engine
async def test_any_changed_byte_is_found(
    database: Database, people: People, tmp_path: Path, form: Format
) -> None:
    """Verification fails if any single character of the file was changed."""
    assert people.ada.id != people.bob.id
    path = tmp_path / "journal"
    await write_export(database, path, form)
    whole = path.read_bytes()
    chance = random.Random(7)
    for _ in range(100):
        place = chance.randrange(len(whole))
        other = chance.choice(b'0123456789abcdefghijklmnopqrstuvwxyz",{}\n')
        if whole[place] == other:
            continue
        path.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
        await error_in_export(path)


async def test_the_length_of_a_line_is_limited(tmp_path: Path) -> None:
    """Verification stops reading a line after 64 KiB."""
    path = tmp_path / "journal"
    path.write_bytes(b'{"object":"' + b"x" * 200_000 + b'"}\n')
    assert "too long" in await error_in_export(path)
    header = ",".join(COLUMNS).encode()
    for long_text in (b"\n" * 200_000, b"\n" + b"x" * 200_000):
        path.write_bytes(header + b'\n"' + long_text + b'"\n')
        assert "too long" in await error_in_export(path)


@pytest.mark.parametrize(
    "octets",
    [b"PK\x03\x04 a spreadsheet\n", b"{}\n", b"[]\n", b"\xff\n", b'{"a":%b}\n' % (b"[" * 5_000)],
)
async def test_a_file_that_is_no_export_is_refused(tmp_path: Path, octets: bytes) -> None:
    """The error names the line that cannot be read."""
    (tmp_path / "journal").write_bytes(octets)
    assert (await error_in_export(tmp_path / "journal")).startswith(
        "line 1 of the export cannot be read"
    )


class _SmallLedger:
    """Two accounts with two entries each; it is not correct, but it can be read."""

    def __init__(self, note: str) -> None:
        self._note = note

    async def accounts(self) -> AsyncIterator[Account]:
        for name in ("acct_1", "acct_2"):
            yield Account(name, "", "", "", "active", 0, 0, FIRST_HASH, 0, 0)

    async def entries(self) -> AsyncIterator[list[Entry]]:
        for name in ("acct_1", "acct_1", "acct_2", "acct_2"):
            yield [
                Entry(name, 1, "tr_1", "transfer", 1, 1, "acct_3", self._note, None, None, 1, "h")
            ]


async def small_export(form: Format, note: str = "n") -> tuple[bytes, list[bytes]]:
    """Return the header, which may be empty, and the records of a small export."""
    records: list[bytes] = []
    await export_ledger(_SmallLedger(note), records.append, form)
    return (records[0], records[1:]) if form == "csv" else (b"", records)


async def read_pages(path: Path) -> list[int]:
    """Return how many entries each page of an export has; do not verify them."""
    return [len(page) async for page in ExportedLedger(path).entries()]


async def reading_error(path: Path) -> str:
    """Return the error with which the reading of an export ends."""
    with pytest.raises(VerificationFailed) as found:
        await read_pages(path)
    return str(found.value)


@pytest.mark.parametrize(("page_entries", "expected"), [(2, [2, 2]), (3, [3, 1]), (4, [4])])
async def test_an_export_is_read_page_by_page(
    tmp_path: Path,
    form: Format,
    monkeypatch: pytest.MonkeyPatch,
    page_entries: int,
    expected: list[int],
) -> None:
    """A page has a limited number of entries, and the accounts are read without the entries."""
    monkeypatch.setattr("ousel.ledger.verify.PAGE_ENTRIES", page_entries)
    header, records = await small_export(form)
    (tmp_path / "journal").write_bytes(header + b"".join(records))

    assert await read_pages(tmp_path / "journal") == expected
    accounts = [each.id async for each in ExportedLedger(tmp_path / "journal").accounts()]
    assert accounts == ["acct_1", "acct_2"]


async def test_the_last_line_of_an_export_counts_its_entries(tmp_path: Path, form: Format) -> None:
    """If there are fewer or more, the error has both numbers."""
    header, records = await small_export(form)
    (tmp_path / "journal").write_bytes(header + b"".join(records[:-2] + records[-1:]))

    assert (
        await reading_error(tmp_path / "journal")
        == "the export has 3 entries, but its last line says 4"
    )


MISPLACED = {
    "an account twice": (0, 0),
    "accounts the wrong way round": (1, 0),
    "an account after an entry": (0, 2, 1),
    "an entry of an earlier account": (0, 1, 4, 2),
    "an account after the end": (0, 6, 1),
    "an entry after the end": (6, 2),
    "the end twice": (0, 6, 6),
}


@pytest.mark.parametrize("order", MISPLACED.values(), ids=MISPLACED)
async def test_a_line_in_the_wrong_place_is_named(
    tmp_path: Path, form: Format, order: tuple[int, ...]
) -> None:
    """Accounts come first, then entries in the order of accounts, then the end."""
    header, records = await small_export(form)
    (tmp_path / "journal").write_bytes(header + b"".join([records[each] for each in order]))

    number = len(order) + (form == "csv")
    assert (
        await reading_error(tmp_path / "journal") == f"line {number} of the export is out of order"
    )


async def test_the_lines_of_a_quoted_text_count(tmp_path: Path) -> None:
    """In CSV, the number in an error is that of a line in an editor."""
    header, records = await small_export("csv", note='three\n"lines"\nof text')
    path = tmp_path / "journal"

    path.write_bytes(header + b"".join(records[:3]) + b"nothing\n")
    error = await reading_error(path)
    assert error == "line 7 of the export cannot be read: there are not exactly 13 cells"
    path.write_bytes(header + b"".join(records[:3]) + records[3][:-20])
    assert await reading_error(path) == "line 7 of the export is too long, or breaks off"


@pytest.mark.parametrize("end", [b"\n", b",,\n", b',"h",1\n', b',"h"x\n'])
async def test_a_line_with_another_number_of_cells_is_refused(tmp_path: Path, end: bytes) -> None:
    """Each line has as many cells as the header."""
    header, records = await small_export("csv")
    entry = records[2]
    assert entry.endswith(b',"h"\n')

    (tmp_path / "journal").write_bytes(header + entry.removesuffix(b',"h"\n') + end)

    error = await reading_error(tmp_path / "journal")
    assert error == "line 2 of the export cannot be read: there are not exactly 13 cells"


async def test_a_line_may_have_64_kib(tmp_path: Path, form: Format) -> None:
    """One more byte is refused."""
    path = tmp_path / "journal"
    _, records = await small_export(form, note="")
    spare = LINE_BYTES_MAX - len(records[2])
    for note_bytes in (spare, spare + 1):
        header, records = await small_export(form, note="x" * note_bytes)
        path.write_bytes(header + b"".join(records))
        if note_bytes == spare:
            assert await read_pages(path) == [4]
        else:
            assert "too long" in await reading_error(path)


class _LongLedger:
    """A ledger of any length that is not in memory."""

    def __init__(self, pages: int) -> None:
        self._pages = pages

    async def accounts(self) -> AsyncIterator[Account]:
        yield Account(SYSTEM_ACCOUNT_ID, "", "", "", "active", 0, 0, FIRST_HASH, 0, 0)

    async def entries(self) -> AsyncIterator[list[Entry]]:
        for number in range(self._pages):
            yield [
                Entry("acct_1", number, "tr_1", "transfer", 1, 1, "acct_2", "n", None, None, 1, "h")
                for _ in range(200)
            ]


@pytest.mark.slow
async def test_memory_does_not_grow_with_the_journal(form: Format) -> None:
    """Neither the entries nor what is written of them is kept."""
    written = 0

    def write(octets: bytes) -> None:
        nonlocal written
        written += len(octets)

    tracemalloc.start()  # also counts what other threads need meanwhile
    done = await export_ledger(_LongLedger(100), write, form)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert done.entries == 20_000
    assert written > 1_000_000
    assert peak < 500_000
