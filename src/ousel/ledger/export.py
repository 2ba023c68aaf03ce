"""The journal as a file, which is written from one snapshot and verified without the database.

It lists all accounts, each with its balance and the number and hash of its last entry, then all
entries in the order of accounts and sequences. The last line marks the end. Both formats have
the same fields. As in the hashes, amounts are in millionths and times in microseconds.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec

from ousel.ledger import verify
from ousel.ledger.rules import Account, Entry
from ousel.ledger.verify import LedgerSource, VerificationFailed

Format = Literal["jsonl", "csv"]
Write = Callable[[bytes], object]

LINE_BYTES_MAX: Final = 64 * 1024

_FIELDS_IN_MICROS: Final = ("amount", "balance_after", "created_at")


class _Line(
    msgspec.Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="object",
    rename={field: f"{field}_micros" for field in _FIELDS_IN_MICROS},
):
    """A line of an export; its field `object` says which kind it is."""


class AccountLine(_Line, frozen=True, tag="account"):
    """An account: how many entries it has, its balance after them, and the last one's hash."""

    account_id: str
    sequence: int
    balance_after: int
    hash: str


class EntryLine(_Line, frozen=True, tag="entry"):
    """An entry, field by field."""

    account_id: str
    sequence: int
    transfer_id: str
    kind: str
    amount: int
    balance_after: int
    counterparty_id: str
    note: str | None
    charge_id: str | None
    idempotency_key: str | None
    created_at: int
    hash: str


class EndLine(
    msgspec.Struct,
    frozen=True,
    gc=False,
    forbid_unknown_fields=True,
    tag_field="object",
    tag="end",
):
    """The end of the file: how many entries it has in all."""

    sequence: int


Line = AccountLine | EntryLine | EndLine

FIELDS: Final = msgspec.structs.fields(EntryLine)
COLUMNS: Final = ("object", *(field.encode_name for field in FIELDS))

_OPTIONAL: Final = frozenset({"note", "charge_id", "idempotency_key"})
_HEADER: Final = ",".join(COLUMNS).encode() + b"\n"
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_CELL: Final = re.compile(r'(?:"((?:[^"]|"")*+)"|([^",\n]*+))[,\n]')

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Line).decode


class ExportTotals(msgspec.Struct, frozen=True):
    """How many accounts and entries were written."""

    accounts: int
    entries: int


async def export_ledger(ledger: LedgerSource, write: Write, file_format: Format) -> ExportTotals:
    """Write the ledger line by line, so that its length does not affect the memory needed."""
    encode_line = _csv_line if file_format == "csv" else _json_line
    if file_format == "csv":
        write(_HEADER)
    accounts = entries = 0
    async for account in ledger.accounts():
        write(encode_line(_account_line(account)))
        accounts += 1
    async for page in ledger.entries():
        lines = [encode_line(EntryLine(*msgspec.structs.astuple(entry))) for entry in page]
        write(b"".join(lines))
        entries += len(page)
    write(encode_line(EndLine(entries)))
    return ExportTotals(accounts, entries)


class ExportedLedger:
    """The ledger in an export; each call reads the file again, line by line."""

    def __init__(self, path: Path) -> None:
        """Read the ledger from this file."""
        self._path = path

    async def accounts(self) -> AsyncIterator[Account]:
        """Return the accounts, which come before the entries."""
        for _, line in self._lines():
            if not isinstance(line, AccountLine):
                return
            yield _account(line)

    async def entries(self) -> AsyncIterator[list[Entry]]:
        """Return the whole journal, page by page; check that the file is complete."""
        page: list[Entry] = []
        number, count, expected_count = 0, 0, None
        for number, line in self._lines():  # noqa: B007 - the error message below names the last one
            if isinstance(line, EntryLine):
                page.append(Entry(*msgspec.structs.astuple(line)))
                count += 1
            elif isinstance(line, EndLine):
                expected_count = line.sequence
            if len(page) == verify.PAGE_ENTRIES:
                yield page
                page = []
        if page:
            yield page
        if expected_count is None:
            raise VerificationFailed(f"the export breaks off after line {number}")
        if expected_count != count:
            raise VerificationFailed(
                f"the export has {count} entries, but its last line says {expected_count}"
            )

    def _lines(self) -> Iterator[tuple[int, Line]]:
        """Return each line with its number; check that the lines are in order."""
        last_key = (-1, "")
        with self._path.open("rb") as file:
            is_csv = file.readline(LINE_BYTES_MAX) == _HEADER
            number = 2 if is_csv else 1
            file.seek(len(_HEADER) if is_csv else 0)
            while octets := _record(file, number, is_csv=is_csv):
                line = _parse_line(octets, number, is_csv=is_csv)
                key = _sort_key(line)
                if key < last_key or (key == last_key and not isinstance(line, EntryLine)):
                    raise VerificationFailed(f"line {number} of the export is out of order")
                yield number, line
                last_key = key
                number += octets.count(b"\n")


def _sort_key(line: Line) -> tuple[int, str]:
    if isinstance(line, EndLine):
        return 2, ""
    return (0 if isinstance(line, AccountLine) else 1), line.account_id


def _record(file: BinaryIO, number: int, *, is_csv: bool) -> bytes:
    """Return the next record; in CSV, a quoted text may contain line breaks."""
    record = piece = file.readline(LINE_BYTES_MAX)
    is_open = is_csv and piece.count(b'"') % 2 == 1
    while is_open and piece and len(record) < LINE_BYTES_MAX:
        piece = file.readline(LINE_BYTES_MAX)
        record += piece
        is_open = piece.count(b'"') % 2 == 0
    if record and (is_open or not record.endswith(b"\n")):
        raise VerificationFailed(f"line {number} of the export is too long, or breaks off")
    return record


def _parse_line(octets: bytes, number: int, *, is_csv: bool) -> Line:
    try:
        line: Line = msgspec.convert(_cells(octets.decode()), Line) if is_csv else _decode(octets)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise VerificationFailed(f"line {number} of the export cannot be read: {error}") from error
    return line


def _cells(text: str) -> dict[str, str | int | None]:
    """Return the cells of a CSV line by column, without those that are empty and not quoted."""
    cells: dict[str, str | int | None] = {}
    cell, position = None, 0
    for column in COLUMNS:
        cell = _CELL.match(text, position)
        if cell is None:
            break
        position = cell.end()
        if cell[1] is not None:
            cells[column] = cell[1].replace('""', '"')
        elif cell[2]:
            cells[column] = int(cell[2]) if _NUMBER.fullmatch(cell[2]) else cell[2]
    if cell is None or position != len(text):
        raise msgspec.ValidationError(f"there are not exactly {len(COLUMNS)} cells")
    if cells.get("object") == "entry":
        return dict.fromkeys(_OPTIONAL) | cells
    return cells


def _json_line(line: Line) -> bytes:
    return _encode(line) + b"\n"


def _csv_line(line: Line) -> bytes:
    values: dict[str, str | int | None] = msgspec.to_builtins(line)
    return ",".join([_cell(values.get(column)) for column in COLUMNS]).encode() + b"\n"


def _cell(value: str | int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return '"' + value.replace('"', '""') + '"'


def _account_line(account: Account) -> AccountLine:
    return AccountLine(account.id, account.sequence, account.balance, account.head_hash)


def _account(line: AccountLine) -> Account:
    return msgspec.structs.replace(
        verify.empty_account(line.account_id),
        balance=line.balance_after,
        sequence=line.sequence,
        head_hash=line.hash,
    )
