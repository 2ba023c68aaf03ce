"""Rewrites statements for Citus: names the shards that they need, and replaces some joins.

Citus chooses the shards of a statement by the values that the statement gives for the distribution
column. If these values come from a list of rows that is joined, Citus does not see them, so the
statement repeats them in a condition, `= ANY(…)`. Citus joins accounts only with rows of the same
account. So the accounts to which rows refer are read by a second statement.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ousel.database.citus import DISTRIBUTION_COLUMNS
from ousel.database.citus_functions import CALLS
from ousel.database.port import Row
from ousel.database.statements import (
    CompiledStatement,
    Statement,
    Table,
    bulk_update,
    for_postgres,
    json_text,
)
from ousel.kernel.ids import owner_of_id

_ROWS_JOINED: Final = re.compile(
    r"ROWS\(:(?P<rows>\w+), (?P<columns>[a-z_, ]+)\)"
    r" JOIN (?P<table>\w+) ON (?P=table)\.(?P<column>\w+) = (?P=rows)\.(?P<value>\w+)"
)
_ACCOUNT_JOINED: Final = re.compile(
    r" (?P<left>LEFT )?JOIN accounts AS (?P<alias>\w+) ON (?P=alias)\.id = (?P<reference>[\w.]+)"
)
_CHARGES_BY_ID: Final = re.compile(
    r"FROM charges\b.*?(?P<condition>\b(charges\.)?id = ANY\(:ids\))"
)
# Citus locks rows only if all are in one shard, so the oldest rows of a table are selected without
# locking them.
_OLDEST_LOCKED: Final = re.compile(r"(LIMIT :limit) FOR UPDATE\)")

Parameters = Mapping[str, Any]
Addition = Callable[[Parameters], object]

# Citus cannot join the entries of two accounts. So both are read first, and the results are joined.
_MOVEMENTS_AT: Final = (
    "WITH debit AS MATERIALIZED (SELECT entries.* FROM entries"
    " WHERE entries.account_id = ANY(:debit_accounts)"
    " AND (entries.account_id, entries.sequence) IN"
    " (SELECT debit_account_id, debit_sequence FROM {places})),"
    " credit AS MATERIALIZED (SELECT entries.* FROM entries"
    " WHERE entries.account_id = ANY(:credit_accounts)"
    " AND (entries.account_id, entries.sequence) IN"
    " (SELECT credit_account_id, credit_sequence FROM {places}))"
    " SELECT {columns} FROM {places}"
    " JOIN debit ON debit.account_id = places.debit_account_id"
    " AND debit.sequence = places.debit_sequence"
    " JOIN credit ON credit.account_id = places.credit_account_id"
    " AND credit.sequence = places.credit_sequence"
)
_TWO_ENTRIES_JOINED: Final = re.compile(
    r"SELECT (?P<columns>debit\..*) FROM (?P<places>ROWS\(:places, .*?\)) JOIN entries AS debit"
)

# Statements that must find every row of a list, and the parameter with that list. After a crash, a
# commit may be finished on one server only. Then a row may still be visible although another
# transaction has deleted it. A statement that needs this row waits until the deletion is finished
# there too, and then the row is gone. So it finds too few rows, and the write must be repeated.
_LISTS_OF_ROWS: Final = {"delete batches of movements that are sealed now": "ids"}

# Parameters that only the rewritten statements have; each is computed from the given parameters.
_ADDITIONS: Final[dict[str, Addition]] = {
    "keys_json": lambda given: json_text(given["keys"]),
    "checked_json": lambda given: json_text(given["checked"]),
    "debit_accounts": lambda given: [place[0] for place in given["places"]],
    "credit_accounts": lambda given: [place[2] for place in given["places"]],
    "owners": lambda given: _owners(given["ids"]),
}


class JoinedAccounts(msgspec.Struct, frozen=True):
    """The columns of accounts that are appended to rows, each of which refers to one account."""

    statement: Statement
    reference: int  # the position of the column with the account's id
    width: int
    is_optional: bool

    def ids(self, rows: Iterable[Row]) -> list[str]:
        """Return the ids of the accounts to which the rows refer."""
        return sorted({row[self.reference] for row in rows if row[self.reference] is not None})

    def append(self, rows: Iterable[Row], accounts: Iterable[Row]) -> list[Row]:
        """Return the rows, each with the columns of its account."""
        found = {account[0]: tuple(account)[1:] for account in accounts}
        if self.is_optional:
            nothing = (None,) * self.width
            return [(*row, *found.get(row[self.reference], nothing)) for row in rows]
        return [(*row, *found[row[self.reference]]) for row in rows if row[self.reference] in found]


class CitusStatement(msgspec.Struct, frozen=True):
    """A statement for Citus, and the accounts that are appended to its rows."""

    compiled: CompiledStatement
    joined: JoinedAccounts | None
    rows_named: str | None = None  # the parameter that lists the rows that must all be found


def for_citus(statement: Statement) -> CitusStatement:
    """Return the statement, rewritten for Citus."""
    text = CALLS.get(statement.name, statement.text)
    additions = dict(_ADDITIONS)
    rows_named = _LISTS_OF_ROWS.get(statement.name)
    if (match := _TWO_ENTRIES_JOINED.match(text)) is not None:
        text, rows_named = _MOVEMENTS_AT.format(**match.groupdict()), "places"
    joined = None
    if (match := _ACCOUNT_JOINED.search(text)) is not None:
        text, joined = _split_join(text, match)
    if (match := _ROWS_JOINED.search(text)) is not None:
        text = text[: match.end()] + _shard_condition(match, additions) + text[match.end() :]
    text = _OLDEST_LOCKED.sub(r"\1)", text)
    if (match := _CHARGES_BY_ID.search(text)) is not None:
        condition = match["condition"]
        owner = condition.replace("id = ANY(:ids)", "account_id")
        known = f"(:owners::text[] IS NULL OR {owner} = ANY(:owners))"
        text = text.replace(condition, f"{condition} AND {known}")
    compiled = _with_additions(Statement(statement.name, text), additions)
    return CitusStatement(compiled, joined, rows_named)


def update_for_citus(table: Table) -> CompiledStatement:
    """Return the statement that updates a list of rows, given as `rows`."""
    update = bulk_update(table)
    additions: dict[str, Addition] = {}
    text = update.text
    column = DISTRIBUTION_COLUMNS.get(table.name)
    if column in table.key_names:
        position = table.key_names.index(column)
        additions["needed"] = lambda given: [row[position] for row in given["rows"]]
        text += f" AND {table.name}.{column} = ANY(:needed::text[])"
    elif table.name == "charges":
        additions["owners"] = lambda given: _owners(row[0] for row in given["rows"])
        text += " AND (:owners::text[] IS NULL OR charges.account_id = ANY(:owners))"
    return _with_additions(Statement(update.name, text), additions)


def _split_join(text: str, match: re.Match[str]) -> tuple[str, JoinedAccounts]:
    """Return the statement without the join of accounts, and the columns to append instead."""
    alias, reference = match["alias"], match["reference"]
    columns = re.findall(rf"\b{alias}\.(\w+)", text[: text.index(" FROM ")])
    selected = ", ".join(f"{alias}.{name}" for name in columns)
    own = text.replace(match[0], "").replace(f", {selected} FROM ", " FROM ", 1)
    position = own[len("SELECT ") : own.index(" FROM ")].split(", ").index(reference)
    accounts = Statement(
        f"accounts to which rows refer as {alias}",
        f"SELECT id, {', '.join(columns)} FROM accounts WHERE id = ANY(:ids)",
    )
    return own, JoinedAccounts(accounts, position, len(columns), match["left"] is not None)


def _shard_condition(match: re.Match[str], additions: dict[str, Addition]) -> str:
    """Return the condition that names the shards of the joined rows, or "" if there is none."""
    if DISTRIBUTION_COLUMNS.get(match["table"]) != match["column"]:
        return ""
    names = [column.split()[0] for column in match["columns"].split(", ")]
    position, rows = names.index(match["value"]), match["rows"]
    additions["needed"] = lambda given: [row[position] for row in given[rows]]
    return f" AND {match['table']}.{match['column']} = ANY(:needed::text[])"


def _owners(ids: Iterable[str]) -> list[str] | None:
    """Return the accounts that these ids name, or None if one of the ids names none."""
    owners = {owner_of_id(id_) for id_ in ids}
    return None if None in owners else [owner for owner in owners if owner is not None]


def _with_additions(statement: Statement, additions: Mapping[str, Addition]) -> CompiledStatement:
    """Return the compiled statement, which computes the additional parameters that it uses."""
    compiled = for_postgres(statement)
    used = {name: find for name, find in additions.items() if f":{name}" in statement.text}

    def build_arguments(given: dict[str, Any]) -> Sequence[Any]:
        return compiled.arguments(given | {name: find(given) for name, find in used.items()})

    return CompiledStatement(compiled.text, build_arguments)
