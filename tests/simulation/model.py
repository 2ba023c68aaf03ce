"""The rows that matter, read from the tables with nothing but SQL and SHA-256."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from ousel.ledger.rules import SYSTEM_ACCOUNT_ID
from tests.simulation.store import Commit, Store, Write

FIRST_HASH = "0" * 64
FINAL = {"paid", "canceled", "expired"}

_ENTRY_COLUMNS = (
    "account_id, sequence, transfer_id, kind, amount, balance_after, counterparty_id, note,"
    " charge_id, idempotency_key, created_at, hash"
)
_CHARGE_COLUMNS = (
    "id, status, amount, created_at, expires_at, paid_at, canceled_at, paid_by, transfer_id"
)
_canonical = msgspec.json.Encoder().encode


class Inconsistent(Exception):
    """The rows contradict each other."""


class AccountState(msgspec.Struct):
    """An account as its entries make it."""

    balance: int
    sequence: int
    head_hash: str
    updated_at: int


class EntryRow(msgspec.Struct, frozen=True):
    """A row of the journal."""

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


class Transfer(msgspec.Struct, frozen=True):
    """A debit and a credit that belong together."""

    debit: EntryRow
    credit: EntryRow


class ChargeRow(msgspec.Struct, frozen=True):
    """What a charge says about its state."""

    id: str
    status: Literal["created", "paid", "canceled", "expired"]
    amount: int
    created_at: int
    expires_at: int
    paid_at: int | None
    canceled_at: int | None
    paid_by: str | None
    transfer_id: str | None


class Model:
    """Accounts, transfers, charges, codes and tokens, as they are committed."""

    def __init__(self, store: Store) -> None:
        """Read all tables, and check that they agree with each other."""
        self._store = store
        self.accounts: dict[str, AccountState] = {}
        self.transfers: dict[str, Transfer] = {}
        self.keys: dict[tuple[str, str], str] = {}  # the transfer id of each used key
        self.charges: dict[str, ChargeRow] = {}
        self.codes: dict[str, int | None] = {}  # when a code was used, by its handle
        self.tokens: dict[str, str] = {}  # the code's handle of each token, by the token's handle
        self._last_charge_row = 0
        for (id_,) in store.fetch("SELECT id FROM accounts ORDER BY id"):
            self.accounts[id_] = AccountState(0, 0, FIRST_HASH, 0)
        order = "ORDER BY account_id, sequence"
        rows = store.fetch(f"SELECT {_ENTRY_COLUMNS} FROM entries {order}")
        self.add_entries([EntryRow(*row) for row in rows])
        for head in store.fetch("SELECT id, balance, sequence, head_hash FROM accounts"):
            self.check_head(*head)
        self.check_total()
        self.read_new_charges()
        self.read_codes()

    def add_entries(self, entries: list[EntryRow]) -> list[Transfer]:
        """Append entries that belong together in pairs; return the transfers."""
        sides: dict[str, list[EntryRow]] = {}
        for entry in entries:
            self._append(entry)
            sides.setdefault(entry.transfer_id, []).append(entry)
        return [self._pair(id_, pair) for id_, pair in sides.items()]

    def check_total(self) -> None:
        """Compare the sum of all balances with zero."""
        total = sum(account.balance for account in self.accounts.values())
        if total != 0:
            raise Inconsistent(f"the balances add up to {total}")

    def check_head(self, id_: str, balance: int, sequence: int, head_hash: str) -> None:
        """Compare an account's row with its entries."""
        account = self.accounts[id_]
        if (balance, sequence, head_hash) != (account.balance, account.sequence, account.head_hash):
            raise Inconsistent(f"the balance of {id_} is {balance}, its entries say {account}")

    def read_charges(self, ids: list[str]) -> list[tuple[ChargeRow | None, ChargeRow]]:
        """Read these charges again; return each as it was and as it is."""
        marks = ", ".join("?" for _ in ids)
        rows = self._store.fetch(
            f"SELECT {_CHARGE_COLUMNS} FROM charges WHERE id IN ({marks})", ids
        )
        return self._replace_charges([ChargeRow(*row) for row in rows])

    def read_new_charges(self) -> list[tuple[ChargeRow | None, ChargeRow]]:
        """Read the charges that were inserted since the last call."""
        text = f"SELECT {_CHARGE_COLUMNS} FROM charges WHERE rowid > ? ORDER BY rowid"
        rows = self._store.fetch(text, [self._last_charge_row])
        ((last,),) = self._store.fetch("SELECT COALESCE(MAX(rowid), 0) FROM charges")
        self._last_charge_row = last
        return self._replace_charges([ChargeRow(*row) for row in rows])

    def read_codes(self) -> list[str]:
        """Read codes and tokens again; return the codes that were used a second time."""
        rows = self._store.fetch("SELECT handle, used_at FROM authorization_codes")
        again = [
            handle
            for handle, used_at in rows
            if self.codes.get(handle) is not None and self.codes[handle] != used_at
        ]
        self.codes = {row[0]: row[1] for row in rows}
        tokens = self._store.fetch("SELECT handle, code_handle FROM user_tokens")
        self.tokens = {row[0]: row[1] for row in tokens}
        if len(set(self.tokens.values())) != len(self.tokens):
            raise Inconsistent("one code has two tokens")
        unused = [code for code in self.tokens.values() if self.codes.get(code) is None]
        if unused:
            raise Inconsistent(f"there is a token of the unused code {unused[0]}")
        return again

    def _replace_charges(self, rows: list[ChargeRow]) -> list[tuple[ChargeRow | None, ChargeRow]]:
        changes = [(self.charges.get(row.id), row) for row in rows]
        self.charges |= {row.id: row for row in rows}
        return changes

    def _append(self, entry: EntryRow) -> None:
        account = self.accounts[entry.account_id]
        if entry.sequence != account.sequence + 1:
            raise Inconsistent(
                f"entry {entry.sequence} of {entry.account_id} follows entry {account.sequence}"
            )
        account.balance += entry.amount
        if entry.balance_after != account.balance:
            raise Inconsistent(f"the balance after {entry} is not {account.balance}")
        if account.balance < 0 and entry.account_id != SYSTEM_ACCOUNT_ID:
            raise Inconsistent(f"the balance of {entry.account_id} is {account.balance}")
        if entry.created_at < account.updated_at:
            raise Inconsistent(f"{entry} is dated before the entry that it follows")
        fields = msgspec.structs.astuple(entry)[:-1]
        digest = hashlib.sha256(account.head_hash.encode() + _canonical(fields)).hexdigest()
        if digest != entry.hash:
            raise Inconsistent(f"the hash of {entry} is wrong")
        account.sequence = entry.sequence
        account.head_hash = digest
        account.updated_at = entry.created_at

    def _pair(self, transfer_id: str, pair: list[EntryRow]) -> Transfer:
        if transfer_id in self.transfers:
            raise Inconsistent(f"{transfer_id} moved money twice")
        pair.sort(key=lambda entry: entry.amount)
        if len(pair) != 2 or pair[0].amount >= 0 or pair[0].amount + pair[1].amount != 0:
            raise Inconsistent(f"{transfer_id} is not one debit and one credit: {pair}")
        debit, credit = pair
        if (debit.account_id, debit.counterparty_id) != (credit.counterparty_id, credit.account_id):
            raise Inconsistent(f"the two sides of {transfer_id} do not name each other")
        if debit.idempotency_key is not None:
            key = (debit.account_id, debit.idempotency_key)
            if key in self.keys:
                raise Inconsistent(f"the key {key} moved money twice")
            self.keys[key] = transfer_id
        transfer = Transfer(debit, credit)
        self.transfers[transfer_id] = transfer
        return transfer


_INSERT = re.compile(r"INSERT INTO (\w+) \(([^)]*)\)")
_UPDATE = re.compile(r"UPDATE (\w+) SET (.*) WHERE (.*)", re.DOTALL)
_NUMBERED = re.compile(r"(\w+) = \?(\d+)")


class WriteShape(msgspec.Struct, frozen=True):
    """Which table a statement writes, and which columns a row of its parameters has."""

    verb: str
    table: str
    columns: dict[str, int]


@lru_cache(maxsize=256)
def write_shape(text: str) -> WriteShape:
    """Return what the text of a statement says about its rows."""
    verb = text.split(maxsplit=1)[0]
    if insert := _INSERT.match(text):
        names = insert[2].split(", ")
        return WriteShape(verb, insert[1], {name: index for index, name in enumerate(names)})
    if update := _UPDATE.match(text):
        numbered = _NUMBERED.findall(text)
        return WriteShape(verb, update[1], {name: int(number) - 1 for name, number in numbered})
    return WriteShape(verb, text.split()[2], {})


class Changes(msgspec.Struct):
    """What a commit changes, as far as the model is concerned."""

    entries: list[EntryRow] = []
    heads: list[list[Any]] = []  # id, balance, sequence and hash of accounts
    charge_ids: list[str] = []
    inserts_charges: bool = False
    touches_codes: bool = False


def changes_of(commit: Commit) -> Changes:
    """Return what the statements of a commit change."""
    changes = Changes()
    for write in commit.writes:
        shape = write_shape(write.text)
        match shape.table:
            case "entries":
                rows = _rows(shape, write, EntryRow.__struct_fields__)
                changes.entries += [EntryRow(*row) for row in rows]
            case "accounts" if "head_hash" in shape.columns:
                changes.heads += _rows(shape, write, ("id", "balance", "sequence", "head_hash"))
            case "charges" if shape.verb == "INSERT":
                changes.inserts_charges = True
            case "charges":
                changes.charge_ids += [row[0] for row in _rows(shape, write, ("id",))]
            case "authorization_codes" | "user_tokens":
                changes.touches_codes = True
            case _:
                pass
    return changes


def _rows(shape: WriteShape, write: Write, names: Iterable[str]) -> list[list[Any]]:
    """Return these columns of the rows that a statement writes."""
    positions = [shape.columns[name] for name in names]
    return [[row[position] for position in positions] for row in write.rows]
