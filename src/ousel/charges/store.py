"""The SQL of charges."""

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from typing import Any, Final

import msgspec

from ousel.charges.lifecycle import created_at_of_newest_overdue, is_final, is_overdue
from ousel.charges.rules import Charge, ChargeQuery, Payer, Status
from ousel.database.port import Transaction
from ousel.database.statements import BIGINT_MAX, Statement, Table
from ousel.kernel.clock import Clock
from ousel.kernel.ids import after_all_ids
from ousel.ledger.rules import Movement

CHARGES: Final = Table(
    "charges",
    key=("account_id text", "id text"),
    columns=(
        "app_id text",
        "status text",
        "amount bigint",
        "description text",
        "reference text",
        "success_url text",
        "cancel_url text",
        "idempotency_key text",
        "created_at bigint",
        "expires_at bigint",
        "paid_at bigint",
        "canceled_at bigint",
        "paid_by text",
        "transfer_id text",
    ),
)
# Updates find a charge by its id alone. If they also used the account's id, PostgreSQL without
# statistics might choose an index that begins with the account and the time, and read all charges
# of the account.
_UPDATE_KEY: Final = ("id text",)
EXPIRIES: Final = Table("charges", key=_UPDATE_KEY, columns=("status text",))
CANCELLATIONS: Final = Table(
    "charges", key=_UPDATE_KEY, columns=("status text", "canceled_at bigint")
)
PAYMENTS: Final = Table(
    "charges",
    key=_UPDATE_KEY,
    columns=("status text", "paid_at bigint", "paid_by text", "transfer_id text"),
)

IdempotencyKey = tuple[str, str | None]  # the account's id and its key

_AFTER_ALL_CHARGES: Final = after_all_ids("ch_")
_COLUMN_COUNT: Final = len(CHARGES.names)
_COLUMNS: Final = ", ".join(f"charges.{name}" for name in CHARGES.names)
_SELECT_WITH_PAYER: Final = f"SELECT {_COLUMNS}, payer.username, payer.display_name FROM"
_JOIN_PAYER: Final = " LEFT JOIN accounts AS payer ON payer.id = charges.paid_by"
_CHARGES_OF_ACCOUNT: Final = (
    f"{_SELECT_WITH_PAYER} charges{_JOIN_PAYER} WHERE charges.account_id = :account_id"
)
_STATUS_CHANGED: Final = (
    " AND COALESCE(charges.paid_at, charges.canceled_at,"
    " CASE WHEN charges.expires_at <= :now THEN charges.expires_at END) > :changed_after"
)

INSERT_CHARGES: Final = Statement(
    "insert charges whose id and idempotency key are new",
    f"INSERT INTO charges ({', '.join(CHARGES.names)})"
    f" SELECT {', '.join(CHARGES.names)}"
    f" FROM ROWS(:rows, {', '.join(CHARGES.key + CHARGES.columns)})"
    " WHERE TRUE ON CONFLICT DO NOTHING RETURNING id",
)
CHARGES_BY_ID: Final = Statement(
    "charges by their ids, with their payers",
    f"{_SELECT_WITH_PAYER} charges{_JOIN_PAYER} WHERE charges.id = ANY(:ids)",
)
STATUSES_BY_ID: Final = Statement(
    "the statuses of charges by their ids", "SELECT id, status FROM charges WHERE id = ANY(:ids)"
)
CHARGES_BY_IDEMPOTENCY_KEY: Final = Statement(
    "the charges that used these idempotency keys, with their payers",
    f"{_SELECT_WITH_PAYER} ROWS(:keys, account_id text, idempotency_key text)"
    " JOIN charges ON charges.account_id = keys.account_id"
    f" AND charges.idempotency_key = keys.idempotency_key{_JOIN_PAYER}",
)
LOCK_CHARGES: Final = Statement(
    "lock charges in the order of their ids; read the clock when the statement starts",
    f"SELECT {_COLUMNS}, (SELECT CLOCK()) FROM charges WHERE id = ANY(:ids) ORDER BY id FOR UPDATE",
)
LOCK_FREE_CHARGES: Final = Statement(
    "lock charges in the order of their ids, without those that other transactions have locked",
    f"{LOCK_CHARGES.text} SKIP LOCKED",
)
FINAL_CHARGES: Final = Statement(
    "which of these charges have a final status",
    "SELECT id FROM charges WHERE id = ANY(:ids) AND status <> 'created'",
)
PAID_CHARGES_AFTER: Final = Statement(
    "the paid charges after a given one, in the order of accounts and ids",
    "SELECT account_id, id, amount, paid_by, transfer_id FROM charges"
    " WHERE (account_id, id) > (:account_id, :id) AND status = 'paid'"
    " ORDER BY account_id, id LIMIT :limit",
)


class PageFilters(msgspec.Struct, frozen=True):
    """Which filters a page of charges has, and its order."""

    app: bool = False
    status: bool = False
    reference: bool = False
    status_changed: bool = False
    oldest_first: bool = False


def _page_statement(filters: PageFilters) -> Statement:
    named = {
        "an app": (filters.app, " AND charges.app_id = :app_id"),
        "a status": (filters.status, " AND charges.status = :status"),
        "a reference": (filters.reference, " AND charges.reference = :reference"),
        "a change of status": (filters.status_changed, _STATUS_CHANGED),
    }
    chosen = {name: condition for name, (is_chosen, condition) in named.items() if is_chosen}
    # With the oldest first, the position is enough. A second bound might be the one that the index
    # is entered by, and then a page would read all charges before its position.
    if (filters.status or filters.status_changed) and not filters.oldest_first:
        chosen[""] = " AND charges.created_at > :created_after"
    order, sign, direction = (
        ("oldest", ">", "") if filters.oldest_first else ("newest", "<", " DESC")
    )
    return Statement(
        ", ".join([f"a page of charges, {order} first", *filter(None, chosen)]),
        f"{_CHARGES_OF_ACCOUNT}{''.join(chosen.values())}"
        f" AND (charges.created_at, charges.id) {sign} (:position_time, :position_id)"
        f" ORDER BY charges.created_at{direction}, charges.id{direction} LIMIT :limit",
    )


PAGES: Final = {
    filters: _page_statement(filters)
    for filters in (PageFilters(*each) for each in product((False, True), repeat=5))
}


class PaidCharge(msgspec.Struct, frozen=True, gc=False):
    """What a paid charge says about its payment."""

    account_id: str
    id: str
    amount: int
    paid_by: str
    transfer_id: str


async def add_charges(transaction: Transaction, charges: Iterable[Charge]) -> set[str]:
    """Insert the charges whose ids and idempotency keys are new, and return their ids."""
    # The insert waits for keys that other processes are inserting. All processes insert in the
    # same order, which avoids deadlocks.
    in_order = sorted(charges, key=lambda charge: (charge.account_id, charge.idempotency_key or ""))
    rows = [msgspec.structs.astuple(charge)[:_COLUMN_COUNT] for charge in in_order]
    return {row[0] for row in await transaction.fetch(INSERT_CHARGES, rows=rows)}


async def charges_by_id(transaction: Transaction, ids: Collection[str]) -> dict[str, Charge]:
    """Return the charges with these ids as they are stored, whichever account created them."""
    found = _charges(await transaction.fetch(CHARGES_BY_ID, ids=list(ids)))
    return {charge.id: charge for charge in found}


async def open_charges(transaction: Transaction, ids: Collection[str]) -> set[str]:
    """Return the ids of the charges among these that are not final."""
    rows = await transaction.fetch(STATUSES_BY_ID, ids=list(ids))
    return {row[0] for row in rows if not is_final(row[1])}


async def charges_by_idempotency_key(
    transaction: Transaction, keys: Collection[IdempotencyKey]
) -> dict[IdempotencyKey, Charge]:
    """Return the charges that accounts created with these idempotency keys."""
    found = _charges(await transaction.fetch(CHARGES_BY_IDEMPOTENCY_KEY, keys=list(keys)))
    return {(charge.account_id, charge.idempotency_key): charge for charge in found}


async def lock_charges(
    transaction: Transaction, ids: Collection[str], clock: Clock, *, waits: bool = True
) -> tuple[list[Charge], int]:
    """Lock the charges with these ids until the transaction ends.

    With `waits`, charges that other transactions have locked are waited for; without it, they are
    left out. Return the charges, with `payer` not filled in, and the present moment.
    """
    statement = LOCK_CHARGES if waits else LOCK_FREE_CHARGES
    rows = await transaction.fetch(statement, ids=list(ids))
    now = clock.from_database(rows[0][-1]) if rows else clock()
    return [Charge(*row[:-1]) for row in rows], now


async def wait_for_charge(transaction: Transaction, charge_id: str) -> None:
    """Lock the charge; wait until no other transaction has locked it."""
    await transaction.fetch(LOCK_CHARGES, ids=[charge_id])


async def existing_charges(transaction: Transaction, ids: Collection[str]) -> set[str]:
    """Return the ids among these that belong to a charge, locked or not."""
    return {row[0] for row in await transaction.fetch(STATUSES_BY_ID, ids=list(ids))}


async def final_charges(transaction: Transaction, ids: Collection[str]) -> list[str]:
    """Return the ids of the charges among these whose stored status is final."""
    return [row[0] for row in await transaction.fetch(FINAL_CHARGES, ids=list(ids))]


async def write_expiries(transaction: Transaction, expired: Iterable[Charge]) -> None:
    """Mark these locked charges as expired."""
    await transaction.update(EXPIRIES, [(charge.id, "expired") for charge in expired])


async def write_cancellation(transaction: Transaction, charge: Charge, now: int) -> None:
    """Mark this locked charge as canceled."""
    await transaction.update(CANCELLATIONS, [(charge.id, "canceled", now)])


async def write_payments(transaction: Transaction, payments: Iterable[Movement], now: int) -> None:
    """Mark the locked charges that these movements pay as paid."""
    debits = [payment.debit for payment in payments]
    await transaction.update(
        PAYMENTS,
        [(each.charge_id, "paid", now, each.account_id, each.transfer_id) for each in debits],
    )


async def paid_charges_after(
    transaction: Transaction, after: tuple[str, str], limit: int
) -> list[PaidCharge]:
    """Return the next paid charges in the order of accounts and ids."""
    rows = await transaction.fetch(
        PAID_CHARGES_AFTER, account_id=after[0], id=after[1], limit=limit
    )
    return [PaidCharge(*row) for row in rows]


async def page_of_charges(transaction: Transaction, query: ChargeQuery, now: int) -> list[Charge]:
    """Return the first charges that match the query now, at most one more than its limit."""
    if query.status == "expired":
        return await _page_of_expired(transaction, query, now)
    if query.status == "created" and query.status_changed_after is not None:
        return []
    created_after = created_at_of_newest_overdue(now) if query.status == "created" else 0
    return await _page(transaction, query, query.status, now, created_after)


async def _page_of_expired(transaction: Transaction, query: ChargeQuery, now: int) -> list[Charge]:
    """Return expired charges, whether their stored status says so or is still `created`.

    Each statement may see a later state than the one before. A charge that is written as expired in
    between is found by both if the open charges are read first, and by none if they are read last.
    """
    open_query = query
    if not query.oldest_first:
        before_overdue = (created_at_of_newest_overdue(now) + 1, "")
        position = before_overdue if query.position is None else min(before_overdue, query.position)
        open_query = msgspec.structs.replace(query, position=position)
    # With the oldest first, overdue charges come before other open ones: the page begins with them.
    still_open = await _page(transaction, open_query, "created", now)
    stored = await _page(transaction, query, "expired", now)
    found = {charge.id: charge for charge in still_open if is_overdue(charge, now)}
    found |= {charge.id: charge for charge in stored}
    in_order = sorted(found.values(), key=_position, reverse=not query.oldest_first)
    return in_order[: query.limit + 1]


async def _page(
    transaction: Transaction,
    query: ChargeQuery,
    status: Status | None,
    now: int,
    created_after: int = 0,
) -> list[Charge]:
    changed_after = query.status_changed_after
    if changed_after is not None:  # a status changes at `expires_at` at the latest
        created_after = max(created_after, created_at_of_newest_overdue(changed_after))
    filters = PageFilters(
        app=query.app_id is not None,
        status=status is not None,
        reference=query.reference is not None,
        status_changed=changed_after is not None,
        oldest_first=query.oldest_first,
    )
    position = query.position or (0 if query.oldest_first else BIGINT_MAX, "")
    if query.oldest_first:
        position = max(position, (created_after, _AFTER_ALL_CHARGES))
    position_time, position_id = position
    rows = await transaction.fetch(
        PAGES[filters],
        account_id=query.account_id,
        app_id=query.app_id,
        status=status,
        reference=query.reference,
        created_after=created_after,
        changed_after=changed_after,
        now=now,
        position_time=position_time,
        position_id=position_id,
        limit=query.limit + 1,
    )
    return _charges(rows)


def _position(charge: Charge) -> tuple[int, str]:
    return charge.created_at, charge.id


def _charges(rows: Iterable[Sequence[Any]]) -> list[Charge]:
    return [_charge(row) for row in rows]


def _charge(row: Sequence[Any]) -> Charge:
    charge = Charge(*row[:_COLUMN_COUNT])
    if charge.paid_by is None:
        return charge
    return msgspec.structs.replace(charge, payer=Payer(charge.paid_by, *row[_COLUMN_COUNT:]))
